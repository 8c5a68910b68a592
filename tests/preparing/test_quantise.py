"""Float models that a library quantises: the results, and the impossible cases."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_nets import INPUT, SIZE, quantize_net, write_float_net

from tvmbuild.base.kept_nodes import KeptShare
from tvmbuild.base.progress import PREFIX
from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.specs import InputSpec
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.compare import find_error
from tvmbuild.preparing.keep.choose import Choice
from tvmbuild.preparing.keep.reduced import Reduced
from tvmbuild.preparing.keep.search import Judged
from tvmbuild.preparing.onnx_graph import find_precision
from tvmbuild.preparing.quantise import FloatModel, Guard, Quantised, make_unsigned, quantise
from tvmbuild.preparing.quantisers.table import QUANTISERS
from tvmbuild.preparing.reference import Reference, run_onnx
from tvmbuild.preparing.simplify import Simplified, simplify

CALIBRATION = Calibration("inputs", ("samples.npz",))
BY_BOTH = pytest.mark.parametrize("method", ["onnxruntime", "nncf"])
TAKES_PICTURES = [InputSpec("Input3", low=0.0, high=1.0)]


def draw_samples(name: str = INPUT, shape: tuple[int, ...] = SIZE, count: int = 6) -> list[Mapping[str, np.ndarray]]:
    random = np.random.RandomState(5)
    return [{name: random.uniform(-1, 1, shape).astype(np.float32)} for _ in range(count)]


@pytest.fixture(scope="module")
def simplified(tmp_path_factory: pytest.TempPathFactory) -> Simplified:
    return simplify(write_float_net(tmp_path_factory.mktemp("net") / "net.onnx"), name="net")


def quantise_net(net: Simplified, method: Any = "onnxruntime", *exclude: str) -> Quantised:
    if method == "nncf":
        pytest.importorskip("nncf")
    return quantise(FloatModel(net.model, net.reference, "net"), Quantize(CALIBRATION, method, exclude), draw_samples())


def list_types(model: bytes, operator: str) -> set[str]:
    """Return the types of the zero points of all non-constant tensors."""
    graph = onnx.load_from_string(model).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes = [node for node in graph.node if node.op_type == operator and node.input[0] not in constants]
    return {TensorProto.DataType.Name(constants[node.input[2]].data_type) for node in nodes}


@BY_BOTH
def test_a_float_model_is_quantised(simplified: Simplified, method: str) -> None:
    made = quantise_net(simplified, method)
    proto = onnx.load_from_string(made.model)
    assert find_precision(proto) == "int8"
    assert list_types(made.model, "QuantizeLinear") == list_types(made.model, "DequantizeLinear") == {"UINT8"}
    scales = [tensor for tensor in proto.graph.initializer if tensor.dims and tensor.data_type == TensorProto.FLOAT]
    assert any(len(tensor.dims) == 1 and tensor.dims[0] == 16 for tensor in scales), "no weight has a scale a channel"
    assert [value.name for value in proto.graph.input] == [INPUT]
    assert (made.samples, made.method, made.products) == (6, method, 6)
    # NNCF rounds before the resize, which it does not know, and not after.
    assert made.in_floats == (tuple(_names_of(made.model, "MatMul")) if method == "nncf" else ())
    assert made.error is not None
    assert 0 < made.error < 0.2
    assert made.notes[0].startswith(f"quantised by {method} with 6 samples: outputs up to ")


@BY_BOTH
def test_how_far_it_is_gets_told(simplified: Simplified, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    quantise_net(simplified, method)
    told = capsys.readouterr().out.splitlines()
    walk = [line.partition(",")[0].removeprefix(f"{PREFIX}{method} ") for line in told if f"{PREFIX}{method} " in line]
    assert walk[:6] == [*(f"finds ranges: {done} of 6 samples" for done in range(5)), "takes the last of 6 samples"]
    assert all(line.startswith(PREFIX) for line in told), "the library was heard, too"


@BY_BOTH
def test_the_reference_is_the_quantised_models_own(simplified: Simplified, method: str) -> None:
    made = quantise_net(simplified, method)
    reference = made.reference
    assert reference.precision == "int8"
    assert np.array_equal(reference.inputs[INPUT], draw_samples()[0][INPUT])
    assert find_error(run_onnx(made.model, reference.inputs, "it"), reference.outputs) == 0
    assert 0 < find_error(reference.outputs, run_onnx(simplified.model, reference.inputs, "floats")) < 0.2
    assert reference.spread > 0


@BY_BOTH
def test_the_same_samples_give_the_same_bytes(simplified: Simplified, method: str) -> None:
    made = quantise_net(simplified, method)
    assert made.model == quantise_net(simplified, method).model
    options = Quantize(CALIBRATION, method)  # type: ignore[arg-type]
    other = quantise(make_float(simplified), options, draw_samples()[:1])
    assert other.model != made.model


@BY_BOTH
def test_what_is_excluded_stays_in_floats(simplified: Simplified, method: str) -> None:
    names = [node.name for node in onnx.load_from_string(simplified.model).graph.node if node.op_type == "Conv"]
    made = quantise_net(simplified, method, names[0][:-1] + "?", "Gemm")
    assert {names[0], *_names_of(made.model, "Gemm")} <= set(made.in_floats)
    assert f"{len(made.in_floats)} of 6 products stay in floats: " in made.notes[1]


def _names_of(model: bytes, operator: str) -> list[str]:
    return [node.name for node in onnx.load_from_string(model).graph.node if node.op_type == operator]


@BY_BOTH
def test_an_old_model_is_converted_first(digits: Path, method: str) -> None:
    if method == "nncf":
        pytest.importorskip("nncf")
    net = simplify(digits, TAKES_PICTURES, name="digits")
    assert net.opset == {"ai.onnx": 8}
    samples = draw_samples("Input3", (1, 1, 28, 28))
    made = quantise(FloatModel(net.model, net.reference, "digits"), Quantize(CALIBRATION, method), samples)  # type: ignore[arg-type]
    proto = onnx.load_from_string(made.model)
    assert proto.opset_import[0].version == 13
    assert [value.name for value in proto.graph.input] == ["Input3"]
    assert made.in_floats == ()
    assert made.error is not None
    assert made.error < 0.2


def test_a_model_that_came_quantised_goes_on_as_it_is(tmp_path: Path) -> None:
    net = simplify(quantize_net(write_float_net(tmp_path / "f.onnx"), tmp_path / "q.onnx"), name="net")
    made = quantise_net(net)
    assert (made.model, made.reference, made.method) == (net.model, net.reference, None)
    assert made.notes == ("came quantised: `quantize:` has nothing to do",)


def make_float(net: Simplified) -> FloatModel:
    return FloatModel(net.model, net.reference, "net")


def refuse(*arguments: Any) -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught:
        quantise(*arguments)
    return caught.value


def test_an_exclusion_that_names_nothing(simplified: Simplified) -> None:
    options = Quantize(CALIBRATION, "onnxruntime", ("Sofmax",))
    error = refuse(make_float(simplified), options, draw_samples())
    assert error.message == (
        "net: `exclude:` of its `quantize:` in models.yaml names 'Sofmax', "
        "which is neither a node nor an operator of the simplified model"
    )
    assert error.hint is not None
    assert error.hint.startswith("Did you mean Softmax? Its operators are Add, AveragePool, ")


@pytest.mark.parametrize("method", ["onnxruntime", "nncf"])
def test_a_model_of_which_nothing_is_quantised(simplified: Simplified, method: str) -> None:
    if method == "nncf":
        pytest.importorskip("nncf")
    options = Quantize(CALIBRATION, method, ("*",))  # type: ignore[arg-type]
    error = refuse(make_float(simplified), options, draw_samples())
    assert error.message == f"{method} left all of net in floats"


def test_a_model_that_needs_all_of_its_operators_in_floats(simplified: Simplified) -> None:
    def keep_all(reduced: Reduced) -> Choice:
        kept = tuple(KeptShare(each.name, each.nodes, 0.1, 0.1) for each in reduced.groups)
        return Choice(kept, len(kept), Judged(False, "rms 0.5"), Judged(True, "rms 0"), reduced.words)

    options, guard = Quantize(CALIBRATION, "onnxruntime"), Guard(choose=keep_all)
    with pytest.raises(TvmbuildError) as caught:
        quantise(make_float(simplified), options, draw_samples(), guard)
    told = "net is accurate enough only with all of its operators in floats; quantised: rms 0.5"
    assert caught.value.message == told


def test_a_model_of_halves(simplified: Simplified) -> None:
    proto = onnx.load_from_string(simplified.model)
    for tensor in proto.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    options = Quantize(CALIBRATION, "onnxruntime")
    error = refuse(FloatModel(proto.SerializeToString(), simplified.reference, "net"), options, draw_samples())
    assert error.message == "net is a model of fp16, but quantising needs a float32 model"


@pytest.mark.parametrize("failure", [ValueError("no such\nthing"), KeyError(), RuntimeError("out of luck")])
def test_what_the_library_cannot_do_is_said_with_the_other_one(
    simplified: Simplified, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fail(_work: Any) -> Any:
        raise failure

    monkeypatch.setitem(QUANTISERS, "onnxruntime", fail)
    error = refuse(make_float(simplified), Quantize(CALIBRATION, "onnxruntime"), draw_samples())
    reason = " ".join(str(failure).split()) or "KeyError"
    assert error.message == f"onnxruntime cannot quantise net: {reason}"
    assert error.hint == "try `method: nncf`, or leave operators out by `exclude:`"


def test_what_nncf_refuses_is_said(simplified: Simplified, monkeypatch: pytest.MonkeyPatch) -> None:
    nncf = pytest.importorskip("nncf")

    def refuse_all(*_: Any, **__: Any) -> Any:
        raise nncf.UnsupportedModelError("not this one")

    monkeypatch.setattr(nncf, "quantize", refuse_all)
    error = refuse(make_float(simplified), Quantize(CALIBRATION), draw_samples())
    assert error.message == "nncf cannot quantise net: not this one"


@pytest.mark.parametrize("change", ["name", "float"])
def test_what_the_library_breaks_is_not_taken(
    simplified: Simplified, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    right: Callable[[Any], Any] = QUANTISERS["onnxruntime"]

    def spoil(work: Any) -> Any:
        proto = right(work)
        if change == "name":
            proto.graph.input[0].name = "other"
        else:
            proto.graph.node[0].input[0] = "nowhere"
        return proto

    monkeypatch.setitem(QUANTISERS, "onnxruntime", spoil)
    error = refuse(make_float(simplified), Quantize(CALIBRATION, "onnxruntime"), draw_samples())
    assert error.message.startswith("net cannot be quantised: onnxruntime ")


def test_a_sample_that_cannot_be_read_is_the_error(simplified: Simplified) -> None:
    class Broken(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield draw_samples()[0]
            raise TvmbuildError("a.png cannot be read as a picture")

    for method in QUANTISERS:
        if method == "nncf":
            pytest.importorskip("nncf")
        options = Quantize(CALIBRATION, method)  # type: ignore[arg-type]
        error = refuse(make_float(simplified), options, Broken([1, 2]))
        assert error.message == "a.png cannot be read as a picture"


def test_signed_activations_become_unsigned_and_the_numbers_stay() -> None:
    random = np.random.RandomState(2)
    constants = {
        "scale": np.float32(0.05),
        "zero": np.int8(-7),
        "zero_uint8": np.float32(1),
        "w": random.randint(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "ws": np.float32(0.01),
        "wz": np.int8(0),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"]),
        helper.make_node("Conv", ["a", "dw"], ["c"]),
        helper.make_node("Mul", ["c", "zero_uint8"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 6, 6))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        value_info=[helper.make_tensor_value_info("q", TensorProto.INT8, (1, 3, 8, 8))],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feed = {"x": random.uniform(-9, 9, (1, 3, 8, 8)).astype(np.float32)}
    before = run_onnx(proto.SerializeToString(), feed, "g")
    make_unsigned(proto)
    onnx.checker.check_model(proto, full_check=True)
    assert list_types(proto.SerializeToString(), "QuantizeLinear") == {"UINT8"}
    assert "zero" not in {tensor.name for tensor in proto.graph.initializer}
    assert np.array_equal(run_onnx(proto.SerializeToString(), feed, "g")["y"], before["y"])


def test_nncf_asks_nobody_and_leaves_nothing_behind(simplified: Simplified, tmp_path: Path) -> None:
    pytest.importorskip("nncf")
    home, model = tmp_path / "home", tmp_path / "model.onnx"
    home.mkdir()
    model.write_bytes(simplified.model)
    code = f"""
import sys, socket
def watch(event, arguments):
    if event.startswith("socket."):
        raise SystemExit(f"it wants {{event}} {{arguments}}")
sys.addaudithook(watch)
import numpy, onnx
from tvmbuild.preparing.quantise import modernise
from tvmbuild.preparing.quantisers.by_nncf import quantise
from tvmbuild.preparing.quantisers.quantiser import Work
sample = {{{INPUT!r}: numpy.zeros({SIZE}, numpy.float32)}}
quantise(Work(modernise(onnx.load(sys.argv[1]), "net"), [sample], ()))
"""
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    left = {path.name.casefold() for path in home.rglob("*")}
    assert not any(name in {"intel", "nncf"} or "openvino" in name for name in left), left


def test_a_model_whose_own_numbers_are_uncertain_is_told_to_have_an_accuracy() -> None:
    reference = Reference({}, {}, spread=0.31)
    (said,) = Quantised(b"", reference, "nncf", 4, 3, (), 0.2).notes
    assert said.endswith(
        "a rounding error moves them by 31%, so that the comparison of packages says little: give the model `accuracy`"
    )
    assert "accuracy" not in Quantised(b"", replace(reference, spread=0.2), "nncf", 4, 3, (), 0.2).notes[0]
    (unlike,) = Quantised(b"", replace(reference, spread=0.0), "nncf", 4, 3, ()).notes
    assert "cannot be compared with the float model's" in unlike
