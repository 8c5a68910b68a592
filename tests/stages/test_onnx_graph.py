from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from tvmbuild.errors import TvmbuildError
from tvmbuild.specs import InputSpec
from tvmbuild.stages.onnx_graph import fix_inputs

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


@pytest.mark.parametrize("placeholder", ["?", "-1", "None", ""])
def test_placeholders_are_no_names(placeholder: str) -> None:
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
