"""The parts of the comparison on a GPU that need none: the chosen peers, the reasons for absence, and the table."""

from __future__ import annotations

import ast
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gpu_peers
import numpy as np
import onnx
import onnx_contenders
import onnxruntime
import pytest
from digits import INPUT, OUTPUT, write_digits
from gpu_peers import PEERS, choose_peers, describe, make_table, parse, try_to_make

FLOAT32 = {
    "torch eager",
    "torch graph",
    "torch graph strict",
    "torch graph fused",
    "torch graph NHWC",
    "torch graph NHWC strict",
    "ort cuda",
    "ort graph",
    "ort graph strict",
    "tensorrt",
    "tensorrt strict",
}
COMPILED = {"torch compile", "torch max-autotune"}


@pytest.mark.parametrize(
    ("arguments", "half", "names"),
    [
        ([], False, FLOAT32),
        (["--compile"], False, FLOAT32 | COMPILED),
        ([], True, {name for name in FLOAT32 if "strict" not in name}),
        (["--compile", "--peers", "torch m*", "* strict"], True, {"torch max-autotune"}),
        (["--peers", "tensorrt*", "ort graph"], False, {"tensorrt", "tensorrt strict", "ort graph"}),
    ],
)
def test_peers_are_those_that_are_asked_for(arguments: list[str], half: bool, names: set[str]) -> None:
    args = parse(["project", *(["cell@*"] if not arguments else []), *arguments])
    assert set(choose_peers(args, half)) == names
    assert (args.rounds, args.calls, args.project) == (20, 50, Path("project"))


def test_every_peer_has_a_function() -> None:
    """Its module need not be importable here, because it may import a missing library."""
    for peer in PEERS.values():
        tree = ast.parse((Path(gpu_peers.__file__).parent / f"{peer.module}.py").read_text())
        made = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
        assert [argument.arg for argument in made[peer.function].args.args] == ["path", "inputs", "half"]


def test_a_peer_that_is_missing_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    path = write_digits(tmp_path / "net.onnx")
    reasons = {
        name: try_to_make(partial(PEERS[name].make, path, {INPUT: np.zeros((1, 1, 28, 28), "float32")}, False))
        for name in ("ort graph strict", "tensorrt")
    }
    version = onnxruntime.__version__
    assert reasons["ort graph strict"] == (
        f"RuntimeError: this onnxruntime {version} has no CUDAExecutionProvider; "
        "`pip install onnxruntime-gpu` brings it"
    )
    assert str(reasons["tensorrt"]).startswith("ModuleNotFoundError: ")
    assert gpu_peers.describe_floor().startswith("what a launch costs is not measured: ")


def test_a_contender_is_run_once() -> None:
    calls: list[int] = []
    made = try_to_make(lambda: (lambda: calls.append(1), dict))
    assert not isinstance(made, str)
    assert calls == [1]


@pytest.mark.filterwarnings("ignore")
def test_a_float16_file_has_its_outputs_in_float32(tmp_path: Path) -> None:
    path = write_digits(tmp_path / "net.onnx")
    whole, half = (onnx_contenders.read_model(path, half) for half in (False, True))
    assert onnx.TensorProto.FLOAT16 in {each.data_type for each in half.graph.initializer}
    assert onnx_contenders.describe_outputs(half) == {OUTPUT: ([1, 10], np.dtype("float32"))}
    feed = {INPUT: np.random.RandomState(0).rand(1, 1, 28, 28).astype("float32")}
    want, got = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for each in (whole, half)
    )
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, atol=0.02 * np.abs(want).max())


def make_row(cell: str, precision: str, **ratios: float) -> dict[str, Any]:
    names = {name.replace("_", " "): ratio for name, ratio in ratios.items()}
    return {
        "cell": cell,
        "precision": precision,
        "covered": "3/4",
        "calls": 5,
        "ms": {"tvmbuild": [0.2, 0.19, 0.21]} | {name: [0.2 / ratio, 0, 1] for name, ratio in names.items()},
        "ratio": {name: [ratio, ratio - 0.01, ratio + 0.01] for name, ratio in names.items()},
        "error": {"tvmbuild": 1e-6},
        "absent": {"tensorrt": "ModuleNotFoundError: no tensorrt"},
    }


def test_the_table_has_a_column_a_peer_and_says_what_is_computed_in_what() -> None:
    rows = [
        make_row("a@h200", "fp32", torch_graph=0.5, torch_graph_strict=0.25),
        make_row("b@h200", "fp32", torch_graph=0.125, torch_graph_strict=0.25),
        make_row("a@h200-fp16", "fp16", torch_graph=0.5),
    ]
    said, _, heads, _, *lines = make_table(rows).splitlines()
    assert "peers called strict, compute in float32; other peers in TF32" in said
    assert heads == "| cell | Tasks with records | ms | of torch graph | of torch graph strict | error |"
    assert lines[0] == "| a@h200 | 3/4 | 0.200 | 0.50 (0.49-0.51) | 0.25 (0.24-0.26) | 1.0e-06 |"
    assert lines[2] == "| a@h200-fp16 | 3/4 | 0.200 | 0.50 (0.49-0.51) | - | 1.0e-06 |"
    assert lines[3] == "| geometric mean, fp32 | | | 0.250 (2) | 0.250 (2) | |"
    assert lines[4] == "| geometric mean, fp16 | | | 0.500 (1) | - | |"
    assert describe(rows[2]).endswith("; no tensorrt: ModuleNotFoundError: no tensorrt")
