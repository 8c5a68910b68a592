from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.specs import InputSpec
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.onnx_graph import fix_inputs

Shape = tuple[int | str, ...]


def two_inputs(first: Shape, second: Shape) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip("ab", (first, second), strict=True)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, first)
    return helper.make_model(helper.make_graph([helper.make_node("Relu", ["a"], ["y"])], "net", inputs, [output]))


def fixed(model: onnx.ModelProto, **shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [each.shape for each in fix_inputs(model, [InputSpec(*item) for item in shapes.items()], "net")]


@pytest.mark.parametrize("placeholder", ["?", "-1", "None", "", -1])
def test_placeholders_are_no_names(placeholder: str | int) -> None:
    model = two_inputs((1, placeholder, placeholder), (placeholder,))
    assert fixed(model, a=(1, 192, 48), b=(7,)) == [(1, 192, 48), (7,)]


def test_a_name_is_fixed_wherever_it_appears() -> None:
    model = two_inputs(("N", 3), ("N",))
    assert fixed(model, a=(4, 3)) == [(4, 3), (4,)]
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 4


def test_a_shape_wins_over_a_name() -> None:
    assert fixed(two_inputs(("N", 3), ("N",)), a=(4, 3), b=(5,)) == [(4, 3), (5,)]


def test_no_elements() -> None:
    with pytest.raises(TvmbuildError) as caught:
        fixed(two_inputs((1, 0), (2,)))
    assert caught.value.message == "net: dimension 1 of the input a [1, 0] is 0: it has no elements"


def with_number(kind: int, shape: Shape) -> onnx.ModelProto:
    """Return a model with an input `n` besides its input `x`."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,)),
        helper.make_tensor_value_info("n", kind, shape),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))
    return helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", inputs, [output]))


@pytest.mark.parametrize(
    ("kind", "shape", "value", "expected"),
    [
        (TensorProto.INT64, (), "16000", np.array(16000)),
        (TensorProto.INT64, (3,), "[1, 2, 9007199254740993]", np.array([1, 2, 9007199254740993])),
        (TensorProto.INT64, ("N",), "[4, 5]", np.array([4, 5])),
        (TensorProto.FLOAT, (2, 1), "0.5", np.full((2, 1), 0.5, np.float32)),
        (TensorProto.BOOL, (1,), "true", np.array([True])),
    ],
)
def test_a_value_makes_an_input_a_constant(kind: int, shape: Shape, value: str, expected: np.ndarray) -> None:
    model = with_number(kind, shape)
    (left,) = fix_inputs(model, [InputSpec("n", value=value)], "net")
    assert left.name == "x"
    assert [each.name for each in model.graph.input] == ["x"]
    (constant,) = model.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(constant), expected, strict=True)


@pytest.mark.parametrize(
    ("kind", "shape", "value", "message"),
    [
        (TensorProto.INT64, (), "0.5", "net: the `value:` of the input n is 0.5, which does not fit int64"),
        (TensorProto.UINT8, (), "256", "net: the `value:` of the input n is 256, which does not fit uint8"),
        (TensorProto.INT64, (2,), "[1, 2, 3]", "net: the `value:` of the input n has the shape [3], the input [2]"),
        (TensorProto.INT64, ("N",), "3", "net: the `value:` of the input n has the shape [], the input [N]"),
        (TensorProto.INT64, (2,), "[[1], [1, 2]]", "net: the `value:` of the input n has lists of different lengths"),
        (
            TensorProto.FLOAT,
            (),
            "null",
            "net: the `value:` of the input n has lists of different lengths, or no numbers",
        ),
        (
            TensorProto.FLOAT,
            (),
            '"7"',
            "net: the `value:` of the input n has lists of different lengths, or no numbers",
        ),
        (TensorProto.FLOAT, (), "1e400", "net: the `value:` of the input n is 1e400, which does not fit float32"),
        (TensorProto.FLOAT16, (), "1e6", "net: the `value:` of the input n is 1e6, which does not fit float16"),
        (TensorProto.INT64, (1,), '["a"]', "net: the `value:` of the input n has lists of different lengths"),
    ],
)
def test_values_that_do_not_fit(kind: int, shape: Shape, value: str, message: str) -> None:
    with pytest.raises(TvmbuildError) as caught:
        fix_inputs(with_number(kind, shape), [InputSpec("n", value=value)], "net")
    assert caught.value.message.startswith(message)
