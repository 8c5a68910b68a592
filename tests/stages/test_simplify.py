from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.specs import InputSpec, SimplifyOptions, Tolerance
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.reference import read_reference
from tvmbuild.stages import simplify

MakeStep = Callable[..., Step[SimplifyStep]]
Make = Callable[..., Any]


def info_of(step: Step[SimplifyStep]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(step.output("info").read_text())
    return value


def run_file(path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def refused(step: Step[SimplifyStep]) -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught:
        simplify.run(step)
    assert not any(path.exists() for path in step.outputs.values())
    return caught.value


def test_a_result_that_does_not_fit_is_refused_before_a_search(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense(), InputSpec("x", (2, 4)))
    error = refused(replace(step, options=replace(step.options, postprocess=(Boxes("end2end"),))))
    assert error.message == "a result `boxes` of the form end2end needs [1, boxes, 6]; net has y [2, 3]"
    frames = (Frame(4, 4, "rgb8"),)
    error = refused(replace(step, options=replace(step.options, preprocess=Preprocess(), frames=frames)))
    assert "the input x of net is [2, 4]: no rgb picture in NCHW" in error.message


def test_a_model_is_simplified_and_its_numbers_stay(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense(), InputSpec("x", (2, 4)))
    simplify.run(step)
    info = info_of(step)
    assert info["simplified"]
    assert info["notes"] == []
    assert info["nodes"]["before"] == 4
    assert info["nodes"]["after"] == 2
    assert info["inputs"] == [{"name": "x", "shape": [2, 4], "dtype": "float32"}]
    assert info["outputs"] == [{"name": "y", "shape": [2, 3], "dtype": "float32"}]
    reference = read_reference(step.output("reference"))
    np.testing.assert_allclose(
        run_file(step.output("model"), reference.inputs)["y"], reference.outputs["y"], rtol=1e-5, atol=1e-6
    )
    original = onnx.load(str(step.root / "source.onnx"))
    weight = numpy_helper.to_array(original.graph.initializer[0])
    np.testing.assert_allclose(reference.outputs["y"], np.maximum(reference.inputs["x"] @ weight, 0), rtol=1e-5)


def test_no_file_of_the_project_shadows_a_module(
    simplify_step: MakeStep, dense: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = simplify_step(dense(), InputSpec("x", (2, 4)))
    (step.root / "onnx.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(step.root)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    simplify.run(step)
    assert info_of(step)["simplified"]


def test_the_written_model_is_static(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense(), InputSpec("x", (2, 4)))
    simplify.run(step)
    graph = onnx.load(str(step.output("model"))).graph
    for value in (*graph.input, *graph.output):
        assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim)


def test_a_real_model(simplify_step: MakeStep, digits: Path) -> None:
    step = simplify_step(digits)
    simplify.run(step)
    assert info_of(step)["nodes"] == {"before": 12, "after": 8}
    assert read_reference(step.output("reference")).outputs["Plus214_Output_0"].shape == (1, 10)


def test_the_same_inputs_give_the_same_bytes(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense(), InputSpec("x", (2, 4)))
    simplify.run(step)
    first = [path.read_bytes() for path in step.outputs.values()]
    simplify.run(step)
    assert [path.read_bytes() for path in step.outputs.values()] == first


def test_the_seed_changes_the_reference(simplify_step: MakeStep, dense: Make) -> None:
    values = []
    for seed in (0, 7):
        step = simplify_step(dense(), InputSpec("x", (2, 4)), options=SimplifyOptions(seed=seed))
        simplify.run(step)
        values.append(read_reference(step.output("reference")).inputs["x"])
    assert not np.array_equal(values[0], values[1])


def test_ranges_are_kept(simplify_step: MakeStep) -> None:
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "index"], ["row"]), helper.make_node("Add", ["row", "x"], ["y"])],
        "net",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, (500,)),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (500,)),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (500,))],
        [numpy_helper.from_array(np.arange(10, dtype=np.float32), "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    step = simplify_step(model, InputSpec("index", low=3, high=10), InputSpec("x", low=0, high=255))
    simplify.run(step)
    inputs = read_reference(step.output("reference")).inputs
    assert inputs["index"].dtype == np.int64
    assert set(inputs["index"].tolist()) == set(range(3, 10))
    assert inputs["x"].min() >= 0
    assert 200 < inputs["x"].max() < 255


def test_one_symbol_is_fixed_everywhere(simplify_step: MakeStep) -> None:
    shape = ("batch", "length")
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    step = simplify_step(model, InputSpec("a", (2, 5)))
    simplify.run(step)
    assert [value["shape"] for value in info_of(step)["inputs"]] == [[2, 5], [2, 5]]


def test_external_data_is_merged(tmp_path: Path, simplify_step: MakeStep, dense: Make) -> None:
    folder = tmp_path / "external"
    folder.mkdir()
    onnx.save(dense((1, 4)), str(folder / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    step = simplify_step(folder / "m.onnx")
    simplify.run(step)
    (folder / "w.bin").unlink()
    reference = read_reference(step.output("reference"))
    np.testing.assert_allclose(
        run_file(step.output("model"), reference.inputs)["y"], reference.outputs["y"], rtol=1e-5, atol=1e-6
    )
    assert "the external data of" in refused_after(step)


def refused_after(step: Step[SimplifyStep]) -> str:
    with pytest.raises(TvmbuildError) as caught:
        simplify.run(step)
    return caught.value.message


def test_simplification_can_be_switched_off(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense((1, 4)), options=SimplifyOptions(enabled=False))
    simplify.run(step)
    assert info_of(step)["nodes"] == {"before": 4, "after": 4}
    assert info_of(step)["notes"] == ["simplification is switched off"]


@pytest.fixture
def shadow_onnxsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a module in onnxsim's place on the child process's path, so that the child really fails."""

    def shadow(program: str) -> None:
        (tmp_path / "onnxsim.py").write_text(program)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return shadow


@pytest.mark.parametrize(
    ("program", "note"),
    [
        ("import os; os.kill(os.getpid(), 11)", "not simplified: onnxsim crashed with signal 11"),
        ("raise RuntimeError('no such pass')", "not simplified: onnxsim failed: RuntimeError: no such pass"),
        ("import os; os._exit(0)", "not simplified: onnxsim left no readable model: "),
    ],
)
def test_when_onnxsim_crashes_the_original_goes_on(
    shadow_onnxsim: Callable[[str], None], simplify_step: MakeStep, dense: Make, program: str, note: str
) -> None:
    shadow_onnxsim(program)
    step = simplify_step(dense((1, 4)))
    simplify.run(step)
    info = info_of(step)
    assert not info["simplified"]
    assert info["nodes"] == {"before": 4, "after": 4}
    assert info["notes"][0].startswith(note)
    reference = read_reference(step.output("reference"))
    np.testing.assert_array_equal(run_file(step.output("model"), reference.inputs)["y"], reference.outputs["y"])


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("model.graph.output[0].name = 'product'", "not simplified: onnxsim changed the outputs to product"),
        ("model.graph.input.add().CopyFrom(model.graph.input[0]); model.graph.input[1].name = 'z'", "inputs to x, z"),
        ("model.graph.node[3].domain = 'com.microsoft'", "onnxsim brought in operators of com.microsoft"),
    ],
)
def test_when_simplification_changes_the_interface_the_original_goes_on(
    shadow_onnxsim: Callable[[str], None], simplify_step: MakeStep, dense: Make, change: str, note: str
) -> None:
    shadow_onnxsim(f"def simplify(model, **options):\n    {change}\n    return model, True\n")
    step = simplify_step(dense((1, 4)))
    simplify.run(step)
    assert note in info_of(step)["notes"][0]
    assert info_of(step)["nodes"] == {"before": 4, "after": 4}


def test_when_the_simplified_model_disagrees_the_original_goes_on(
    shadow_onnxsim: Callable[[str], None], simplify_step: MakeStep, dense: Make
) -> None:
    breaks_the_weights = """
import numpy as np
from onnx import numpy_helper

def simplify(model, **options):
    weight = model.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + np.float32(0.5), weight.name))
    return model, True
"""
    shadow_onnxsim(breaks_the_weights)
    step = simplify_step(dense((1, 4)))
    simplify.run(step)
    info = info_of(step)
    assert not info["simplified"]
    assert "the simplified model differs from the original: output y is wrong in" in info["notes"][0]
    assert info["gate"]["max_abs_error"] > 0.1
    reference = read_reference(step.output("reference"))
    np.testing.assert_array_equal(run_file(step.output("model"), reference.inputs)["y"], reference.outputs["y"])


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        (InputSpec("data", (1, 4)), "has no input data; its inputs are x", "correct `inputs:` in models.yaml"),
        (InputSpec("xx", (1, 4)), "has no input xx; its inputs are x", "did you mean x? Correct `inputs:`"),
        (InputSpec("x", (1, 4, 1)), "has 2 dimensions [N, 4], models.yaml gives 3: [1, 4, 1]", "shape"),
        (InputSpec("x", (1, 5)), "dimension 1 of the input x [N, 4] is 4, models.yaml says 5", "shape"),
        (InputSpec("x", (1, 4), "int32"), "is float32 in the ONNX file, models.yaml says int32", "`dtype: float32`"),
    ],
)
def test_inputs_that_do_not_fit(
    simplify_step: MakeStep, dense: Make, spec: InputSpec | None, message: str, hint: str
) -> None:
    error = refused(simplify_step(dense(), *([spec] if spec else [])))
    assert message in error.message
    assert hint in (error.hint or "")


def test_a_batch_is_one_unless_models_yaml_says_otherwise(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense())
    simplify.run(step)
    info = info_of(step)
    assert info["inputs"][0]["shape"] == [1, 4]
    assert info["notes"] == ["batch taken as 1: net.x"]
    step = simplify_step(dense(), InputSpec("x", (3, 4)))
    simplify.run(step)
    info = info_of(step)
    assert (info["inputs"][0]["shape"], info["notes"]) == ([3, 4], [])


def test_what_stays_open_is_asked_for_at_once(simplify_step: MakeStep) -> None:
    shape = ("batch", "length")
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    error = refused(simplify_step(helper.make_model(graph)))
    assert "inputs have dynamic dimensions: a 1 (length); b 1 (length)" in error.message
    assert "`inputs: {a: {shape: [1, 128]}, b: {shape: [1, 128]}}`" in (error.hint or "")


@pytest.mark.parametrize("content", [b"", b"this is a text file, not a model\n" * 20, b"\x89PNG\r\n\x1a\n" + bytes(64)])
def test_a_file_that_is_no_model(tmp_path: Path, simplify_step: MakeStep, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    assert f"{path} is not an ONNX" in refused(simplify_step(path)).message


def test_a_truncated_model(tmp_path: Path, simplify_step: MakeStep, digits: Path) -> None:
    path = tmp_path / "short.onnx"
    path.write_bytes((digits).read_bytes()[:20000])
    assert "is truncated" in refused(simplify_step(path)).message


def test_an_opset_from_the_future(simplify_step: MakeStep, dense: Make) -> None:
    model = dense((1, 4))
    model.opset_import[0].version = 99
    error = refused(simplify_step(model))
    assert "cannot run net's original model" in error.message
    assert "99" in error.message


def test_the_tool_may_write_unknown_sizes_over_an_input(tmp_path: Path, simplify_step: MakeStep) -> None:
    """PyTorch's older exporter reshapes the values of `x[:, 0] = v` to a computed shape that is their own.

    onnxsim drops the Reshape, and its result's inferred shape, names of dimensions, becomes the input's.
    """
    nodes = [
        helper.make_node("Add", ["rows", "places"], ["both"]),
        helper.make_node("Shape", ["both"], ["shape"]),
        helper.make_node("Shape", ["shape"], ["rank"]),
        helper.make_node(
            "ConstantOfShape", ["rank"], ["ones"], value=helper.make_tensor("", TensorProto.INT64, [1], [1])
        ),
        helper.make_node("Mul", ["ones", "minus"], ["open"]),
        helper.make_node("Equal", ["shape", "open"], ["is_open"]),
        helper.make_node("Where", ["is_open", "ones", "shape"], ["size"]),
        helper.make_node("Expand", ["rows", "size"], ["first"]),
        helper.make_node("Expand", ["places", "size"], ["second"]),
        helper.make_node("Unsqueeze", ["first", "minus"], ["first_axis"]),
        helper.make_node("Unsqueeze", ["second", "minus"], ["second_axis"]),
        helper.make_node("Concat", ["first_axis", "second_axis"], ["indices"], axis=-1),
        helper.make_node("Shape", ["data"], ["data_shape"]),
        helper.make_node("Slice", ["data_shape", "two", "far", "zero"], ["row"]),
        helper.make_node("Concat", ["shape", "row"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["values", "wanted"], ["updates"]),
        helper.make_node("ScatterND", ["data", "indices", "updates"], ["y"]),
    ]
    weights = {"rows": np.arange(6)[:, None], "minus": [-1], "two": [2], "far": [2**63 - 1], "zero": [0]}
    shapes = {
        "data": (TensorProto.FLOAT, [6, 6]),
        "places": (TensorProto.INT64, [3]),
        "values": (TensorProto.FLOAT, [6, 3]),
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, *each) for name, each in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 6])],
        [numpy_helper.from_array(np.asarray(value, np.int64), name) for name, value in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    step = simplify_step(tmp_path / "net.onnx", InputSpec("places", low=0, high=6))
    simplify.run(step)
    made = onnx.load(step.outputs["model"])
    found = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in made.graph.input}
    assert found == {name: shape for name, (_, shape) in shapes.items()}


def test_random_numbers_that_make_no_sense(tmp_path: Path, simplify_step: MakeStep) -> None:
    """An input is another one's shape: the hint says how to state it."""
    make = helper.make_tensor_value_info
    inputs = [make("x", TensorProto.FLOAT, [5, 7]), make("sizes", TensorProto.INT64, [4])]
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    graph = helper.make_graph([node], "net", inputs, [make("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    error = refused(simplify_step(tmp_path / "net.onnx"))
    assert "cannot run net's original model" in error.message
    assert "`{sizes: {value: [2, 8]}}`" in (error.hint or "")


def test_an_unknown_operator(simplify_step: MakeStep, dense: Make) -> None:
    model = dense((1, 4))
    model.graph.node[3].op_type = "Frobnicate"
    assert "Frobnicate" in refused(simplify_step(model)).message


def test_a_string_input(simplify_step: MakeStep) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.STRING, (1,))],
        [helper.make_tensor_value_info("y", TensorProto.STRING, (1,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert "the input x has the element type STRING" in refused(simplify_step(model)).message


def test_infinite_outputs_are_noted(simplify_step: MakeStep) -> None:
    graph = helper.make_graph(
        [helper.make_node("Log", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (8,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (8,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    step = simplify_step(model)
    simplify.run(step)
    assert info_of(step)["notes"] == ["the reference output y has values that are not finite"]


def test_half_precision_models_are_compared_as_such(simplify_step: MakeStep, dense: Make) -> None:
    step = simplify_step(dense((1, 4), TensorProto.FLOAT16))
    simplify.run(step)
    assert read_reference(step.output("reference")).precision == "fp16"
    assert Tolerance().at_least("fp16") == Tolerance(rtol=1e-2, atol=1e-3, of_largest=0.02)
    assert Tolerance(rtol=0.5).at_least("fp16").rtol == 0.5


def test_special_numbers_where_an_operator_could_tell(simplify_step: MakeStep) -> None:
    def model(operator: str, **attributes: int) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Reciprocal", ["x"], ["r"]),
            helper.make_node(operator, ["r"], ["s"], **attributes),
            helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
        ]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 8)) for name in ("x", "y")]
        graph = helper.make_graph(nodes, "net", values[:1], values[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    step = simplify_step(model("IsInf", detect_negative=0))
    simplify.run(step)
    specials = read_reference(step.output("reference")).specials
    assert specials is not None
    drawn = specials.inputs["x"]
    assert {bool(np.isnan(drawn).any()), bool((drawn == np.inf).any()), bool((drawn == -np.inf).any())} == {True}
    assert {bool(sign) for sign in np.signbit(drawn[drawn == 0])} == {True, False}
    with np.errstate(all="ignore"):
        want = np.isposinf(1 / drawn).astype(np.float32)  # of denormals, too
    np.testing.assert_array_equal(specials.outputs["y"], want)
    assert 0 < want.sum() < want.size
    step = simplify_step(model("Neg"))
    simplify.run(step)
    assert read_reference(step.output("reference")).specials is None
