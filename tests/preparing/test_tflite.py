"""TensorFlow Lite files: each operator gives LiteRT's outputs in ONNX, or is refused by its name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tflite_files import TfliteFile

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import ModelSpec
from tvmbuild.cli import main
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.stages.simplify import Simplify
from tvmbuild.preparing.model_file import read_model
from tvmbuild.preparing.simplify import simplify

IN = (1, 7, 6, 4)
RNG = np.random.default_rng(0)
CONV: dict[str, Any] = {"strideH": 2, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
POOL: dict[str, Any] = {"filterHeight": 3, "filterWidth": 2, "strideH": 2, "strideW": 2}

Case = tuple[str, tuple[int, ...], list[Any], dict[str, Any]]
"""(operator, output's shape, constant inputs after the first, options with their table)."""


def weights(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def conv(kind: str, out: tuple[int, ...], kernel: tuple[int, ...], **options: Any) -> Case:
    table = "Conv2DOptions" if kind == "CONV_2D" else "DepthwiseConv2DOptions"
    more = {"depthMultiplier": out[3] // IN[3]} if kind.startswith("DEPTH") else {}
    return kind, out, [weights(*kernel), weights(out[3])], {"table": table, **CONV, **more, **options}


def resize(kind: str, *, corners: bool, centers: bool) -> Case:
    table = "ResizeBilinearOptions" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    return kind, (1, 11, 9, 4), [ints(11, 9)], {"table": table, "alignCorners": corners, "halfPixelCenters": centers}


CASES: dict[str, Case] = {
    "conv, same": conv("CONV_2D", (1, 4, 6, 5), (5, 3, 3, 4), padding=0, fusedActivationFunction=1),
    "conv, valid": conv("CONV_2D", (1, 3, 4, 5), (5, 3, 3, 4), padding=1, fusedActivationFunction=3),
    "conv, dilated": conv("CONV_2D", (1, 7, 6, 5), (5, 3, 3, 4), padding=0, strideH=1, dilationHFactor=2),
    "depthwise": conv("DEPTHWISE_CONV_2D", (1, 4, 6, 4), (1, 3, 3, 4), padding=0, fusedActivationFunction=2),
    "depthwise, twice": conv("DEPTHWISE_CONV_2D", (1, 4, 6, 8), (1, 3, 3, 8), padding=0),
    "fully connected": (
        "FULLY_CONNECTED",
        (42, 3),
        [weights(3, 4), weights(3)],
        {"table": "FullyConnectedOptions", "fusedActivationFunction": 1},
    ),
    "average pool": ("AVERAGE_POOL_2D", (1, 4, 3, 4), [], {"table": "Pool2DOptions", "padding": 0, **POOL}),
    "max pool": ("MAX_POOL_2D", (1, 3, 3, 4), [], {"table": "Pool2DOptions", "padding": 1, **POOL}),
    "mean": ("MEAN", (1, 4), [ints(1, 2)], {"table": "ReducerOptions", "keepDims": False}),
    "sum": ("SUM", (1, 1, 1, 4), [ints(1, 2)], {"table": "ReducerOptions", "keepDims": True}),
    "largest": ("REDUCE_MAX", (1, 7, 6), [ints(-1)], {"table": "ReducerOptions", "keepDims": False}),
    "add": ("ADD", IN, [weights(4)], {"table": "AddOptions", "fusedActivationFunction": 1}),
    "prelu": ("PRELU", IN, [weights(1, 1, 4)], {}),
    "leaky": ("LEAKY_RELU", IN, [], {"table": "LeakyReluOptions", "alpha": 0.25}),
    "hard swish": ("HARD_SWISH", IN, [], {"table": "HardSwishOptions"}),
    "softmax": ("SOFTMAX", IN, [], {"table": "SoftmaxOptions", "beta": 2.0}),
    "squared difference": ("SQUARED_DIFFERENCE", IN, [weights(4)], {"table": "SquaredDifferenceOptions"}),
    "pad": ("PAD", (1, 8, 9, 4), [ints([0, 0], [1, 0], [1, 2], [0, 0])], {"table": "PadOptions"}),
    "mirror": (
        "MIRROR_PAD",
        (1, 8, 9, 4),
        [ints([0, 0], [1, 0], [1, 2], [0, 0])],
        {"table": "MirrorPadOptions", "mode": 0},
    ),
    "transpose": ("TRANSPOSE", (1, 4, 7, 6), [ints(0, 3, 1, 2)], {"table": "TransposeOptions"}),
    "reshape": ("RESHAPE", (7, 24), [ints(7, 24)], {"table": "ReshapeOptions", "newShape": [7, 24]}),
    "slice": ("SLICE", (1, 3, 6, 2), [ints(0, 2, 0, 1), ints(1, 3, -1, 2)], {"table": "SliceOptions"}),
    "strided slice": (
        "STRIDED_SLICE",
        (1, 4, 4),
        [ints(0, -1, 4, 0), ints(1, 0, 0, 0), ints(1, -2, 1, 1)],
        {"table": "StridedSliceOptions", "beginMask": 9, "endMask": 11, "shrinkAxisMask": 4},
    ),
    "bilinear": resize("RESIZE_BILINEAR", corners=False, centers=True),
    "bilinear, corners": resize("RESIZE_BILINEAR", corners=True, centers=False),
    "bilinear, old": resize("RESIZE_BILINEAR", corners=False, centers=False),
    "nearest": resize("RESIZE_NEAREST_NEIGHBOR", corners=False, centers=True),
    "nearest, old": resize("RESIZE_NEAREST_NEIGHBOR", corners=False, centers=False),
    "gather": ("GATHER", (1, 7, 2, 4), [ints(5, 1)], {"table": "GatherOptions", "axis": 2}),
    "depth to space": ("DEPTH_TO_SPACE", (1, 14, 12, 1), [], {"table": "DepthToSpaceOptions", "blockSize": 2}),
}


def write(path: Path, case: Case) -> Path:
    kind, shape, constants, options = case
    made = TfliteFile()
    data, result = made.tensor(IN), made.tensor(shape)
    made.operator(kind, [data, *(made.constant(each, str(each.dtype)) for each in constants)], [result], **options)
    return made.save(path, [data], [result])


@pytest.mark.tflite
@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_litert_does(name: str, tmp_path: Path) -> None:
    proto = read_model(write(tmp_path / "net.tflite", CASES[name]), "net")  # which compares them
    assert [value.name for value in proto.graph.input] == ["t0"]


def write_quantised(path: Path, kind: str) -> Path:
    """Write Conv → Relu6 → FullyConnected with float16 weights, or all of it in int8 with a scale for each channel."""
    made = TfliteFile()
    kernel, matrix, bias = weights(5, 3, 3, 4), weights(3, 7 * 6 * 5), weights(5)
    options: dict[str, Any] = {
        "table": "Conv2DOptions",
        **CONV,
        "strideH": 1,
        "padding": 0,
        "fusedActivationFunction": 3,
    }
    if kind == "float16":
        data, hidden, flat, result = (
            made.tensor(IN),
            made.tensor((1, 7, 6, 5)),
            made.tensor((1, 210)),
            made.tensor((1, 3)),
        )
        half = made.constant(kernel.astype(np.float16), "float16")
        wide = made.tensor(kernel.shape)
        made.operator("DEQUANTIZE", [half], [wide], table="DequantizeOptions")
        made.operator("CONV_2D", [data, wide, made.constant(bias)], [hidden], **options)
        dense = made.constant(matrix)
    else:
        data = made.tensor(IN, "int8", scale=[1 / 128], zero=-3)
        scales = np.abs(kernel).max((1, 2, 3)) / 127
        whole = np.round(kernel / scales[:, None, None, None])
        held = made.constant(whole, "int8", scale=list(scales), axis=0)
        sums = made.constant(np.round(bias / (scales / 128)), "int32", scale=list(scales / 128))
        hidden = made.tensor((1, 7, 6, 5), "int8", scale=[6 / 255], zero=-128)
        made.operator("CONV_2D", [data, held, sums], [hidden], **options)
        flat = made.tensor((1, 210), "int8", scale=[6 / 255], zero=-128)
        dense = made.constant(np.round(matrix * 127), "int8", scale=[1 / 127])
        result = made.tensor((1, 3), "int8", scale=[0.2], zero=5)
    made.operator("RESHAPE", [hidden], [flat], table="ReshapeOptions", newShape=[1, 210])
    made.operator("FULLY_CONNECTED", [flat, dense, -1], [result], table="FullyConnectedOptions")
    return made.save(path, [data], [result])


@pytest.mark.tflite
@pytest.mark.parametrize(("kind", "operators"), [("float16", set()), ("int8", {"QuantizeLinear", "DequantizeLinear"})])
def test_networks_of_fewer_bits(kind: str, operators: set[str], tmp_path: Path) -> None:
    made = simplify(write_quantised(tmp_path / "net.tflite", kind))
    kinds = {node.op_type for node in onnx.load_from_string(made.model).graph.node}
    assert kinds & {"QuantizeLinear", "DequantizeLinear"} == operators
    assert made.inputs[0].dtype == ("int8" if kind == "int8" else "float32")


def _custom(made: TfliteFile, data: int, result: int) -> None:
    made.operator("CUSTOM", [data], [result], custom="Convolution2DTransposeBias")


def _unknown(made: TfliteFile, data: int, result: int) -> None:
    made.operator("LOCAL_RESPONSE_NORMALIZATION", [data], [result], table="LocalResponseNormalizationOptions")


def _variable(made: TfliteFile, data: int, result: int) -> None:
    made.tensors[made.tensor(IN)].isVariable = True
    made.operator("RELU", [data], [result])


def _sparse(made: TfliteFile, data: int, result: int) -> None:
    made.tensors[made.tensor((4,))].sparsity = made.schema.SparsityParametersT()
    made.operator("RELU", [data], [result])


def _computed(made: TfliteFile, data: int, result: int) -> None:
    made.operator("CONV_2D", [data, result, -1], [result], table="Conv2DOptions", **CONV)


REFUSED: dict[str, tuple[Callable[[TfliteFile, int, int], None], str]] = {
    "a custom operator": (_custom, "net: there is no code for the custom operator Convolution2DTransposeBias"),
    "an operator": (_unknown, "net: there is no code for LOCAL_RESPONSE_NORMALIZATION"),
    "a variable": (_variable, "net: the tensor t2 is a variable that the network keeps"),
    "sparse weights": (_sparse, "net: the tensor t2 is sparse (DENSIFY)"),
    "computed weights": (_computed, "net: the input 1 of CONV_2D is computed, and no constant"),
}


@pytest.mark.tflite
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_code_is_refused_by_name(name: str, tmp_path: Path) -> None:
    make, said = REFUSED[name]
    made = TfliteFile()
    data, result = made.tensor(IN), made.tensor(IN)
    make(made, data, result)
    path = made.save(tmp_path / "net.tflite", [data], [result])
    with pytest.raises(TvmbuildError) as caught:
        read_model(path, "net")
    assert caught.value.message.startswith(said)
    assert caught.value.hint


@pytest.mark.tflite
def test_other_numbers_than_litert_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmbuild.preparing.tflite import operators

    monkeypatch.setitem(operators.OPERATORS, "LEAKY_RELU", operators.OPERATORS["RELU"])
    with pytest.raises(TvmbuildError, match="it computes other numbers than LiteRT: output t1 is wrong in"):
        read_model(write(tmp_path / "net.tflite", CASES["leaky"]), "net")


def test_a_network_may_be_as_sensitive_as_the_last_bit_of_its_inputs() -> None:
    from tvmbuild.preparing.tflite.convert import find_spread, move_bits

    value = RNG.uniform(-1, 1, 1000).astype(np.float32)
    apart = np.abs(move_bits(value).astype(np.float64) - value) / np.abs(value)
    assert 0 < apart.min() <= apart.max() < 2e-7
    assert len(np.unique(np.sign(move_bits(value) - value))) == 2
    np.testing.assert_array_equal(move_bits(ints(1, 2)), ints(1, 2))
    outputs = {"a": ints(0, 0), "b": np.array([-2000, 1], np.float32)}
    assert find_spread(outputs, outputs) == 0
    assert find_spread(outputs, {**outputs, "b": np.array([-2000, 0], np.float32)}) == 0.0005


@pytest.mark.tflite
def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    path = write(tmp_path / "net.tflite", CASES["conv, same"])
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(TvmbuildError, match=r"is not a whole \.tflite file"):
        read_model(path, "net")


def test_without_the_extra_its_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tflite", None)
    (tmp_path / "net").write_bytes(b"\x1c\0\0\0TFL3")  # the cache's names have no suffix
    said = "a .tflite file needs tflite, which is not installed; `pip install 'tvmbuild[tflite]'`"
    with pytest.raises(TvmbuildError) as caught:
        read_model(tmp_path / "net", "net")
    assert caught.value.message == said
    explain = Simplify().explain_model
    assert explain(ModelSpec("net", Source("path", "net.tflite")), Capabilities()) == said
    assert explain(ModelSpec("net", Source("package", "x==1", "x/net.tflite", "0" * 64)), Capabilities()) == said
    assert explain(ModelSpec("net", Source("path", "net.onnx")), Capabilities()) is None


@pytest.mark.tflite
@pytest.mark.compiler
def test_a_package_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_quantised(tmp_path / "net.tflite", "int8")
    assert main(["check", "net.tflite"]) == 0
    assert "net.tflite: can be built" in capfd.readouterr().out
