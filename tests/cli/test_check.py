"""The command `tvmbuild check`: ONNX files only, without a project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.cli import main


def save(path: Path, node: onnx.NodeProto, shape: tuple[int | str, ...] = (1, 8)) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    weights = [numpy_helper.from_array(np.ones((8, 1000), np.float32), "w")] if "w" in node.input else []
    graph = helper.make_graph([node], "net", values[:1], [helper.make_empty_tensor_value_info("y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), str(path))
    return path


@pytest.mark.compiler
def test_what_can_be_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path / "net.onnx", helper.make_node("MatMul", ["x", "w"], ["y"]), ("N", 8))
    assert main(["check", str(path), "--cpu", "x86-64-v3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: can be built",
        "  opset 17, 1 node; inputs x float32[1, 8]",
        "  1 Task, 1.6e-05 GFLOP per run, 32 kB of constants, 4 kB of workspace",
        "  batch taken as 1: net.x",
        "  several sizes in one package, by these lines in models.yaml:",
        "    inputs: {x: {shape: [B, 8]}}",
        "    sizes: {B: [1, 8]}",
    ]
    assert main(["check", str(path), "--shape", "X=1,8"]) == 1
    assert "no model has an input X" in capsys.readouterr().err
    assert main(["check", str(path), "--shape", "x=1,9"]) == 1
    wrong = capsys.readouterr().out
    assert "dimension 1 of the input x [N, 8] is 8, --shape says 9" in wrong
    assert "can be changed: correct --shape\n" in wrong
    assert main(["check", str(path), "--shape", "x=1,8", "--cpu", "x86-64-v3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: can be built",
        "  opset 17, 1 node; inputs x float32[1, 8]",
        "  1 Task, 1.6e-05 GFLOP per run, 32 kB of constants, 4 kB of workspace",
    ]


@pytest.mark.compiler
def test_a_limit_of_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path / "net.onnx", helper.make_node("MatMul", ["x", "w"], ["y"]))
    assert main(["check", str(path), "--cpu", "x86-64-v3", "--memory", "10kB"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}: can be built"
    assert lines[-2].startswith("  about ")
    assert " kB of memory (an estimate, without records): weights " in lines[-2]
    assert lines[-1].startswith("  more than the allowed 10 kB; the largest arrays are weights float32[")
    assert main(["check", str(path), "--cpu", "x86-64-v3", "--memory", "1GB"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  at most 1000.0 MB, as allowed"
    for limit, exceeds in (("0.01 MB", True), ("1GB", False)):
        assert main(["check", str(path), "--cpu", "x86-64-v3", "--json", "--memory", limit]) == exceeds
        told = json.loads(capsys.readouterr().out)
        assert (told["memory_limit"], told["exceeds_memory"]) == (10_000 if exceeds else 10**9, exceeds)
    assert main(["check", str(path), "--cpu", "x86-64-v3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["memory"], told["memory_limit"], told["exceeds_memory"]) == (None, None, None)
    with pytest.raises(SystemExit):
        main(["check", str(path), "--memory", "1"])
    assert "argument --memory: 1 is not a size with its unit, such as 256MB" in capsys.readouterr().err


@pytest.mark.compiler
def test_the_rest_is_told_though_a_size_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = save(tmp_path / "good.onnx", helper.make_node("MatMul", ["x", "w"], ["y"]), ("N", "seq", 8))
    bad = save(tmp_path / "bad.onnx", helper.make_node("Det", ["x"], ["y"]), ("N", "seq", "seq"))
    yaml, seq = "`inputs: {{x: {{shape: [{}]}}}}`", "128 stands for seq"
    assert main(["check", str(good), str(bad), "--cpu", "x86-64-v3"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{good}: cannot be built",
        "  good.onnx: the input x has dynamic dimensions: 1 (seq)",
        f"  hint: fix them with `--shape x=1,128,8`, or in models.yaml by {yaml.format('1, 128, 8')}; {seq}",
        "  opset 17, 1 node; inputs x float32[N, seq, 8]",
        "  1 Task, 0.00205 GFLOP per run, 32 kB of constants, 512 kB of workspace, where 128 stands for seq",
        "  several sizes in one package, by these lines in models.yaml:",
        "    inputs: {x: {shape: [B, T, 8]}}",
        "    sizes: {B: [1, 8], T: [16, 32, 64, 128]}  # any other T is refused: no input masks padding",
        f"{bad}: cannot be built",
        "  bad.onnx: the input x has dynamic dimensions: 1 (seq), 2 (seq)",
        f"  hint: fix them with `--shape x=1,128,128`, or in models.yaml by {yaml.format('1, 128, 128')}; {seq}",
        (
            "  besides, where 128 stands for seq: bad.onnx: the operator Det (node 'Det_0') "
            "cannot be built: its matrices have 128 rows"
        ),
        "  opset 17, 1 node; inputs x float32[N, seq, seq]",
    ]


@pytest.mark.compiler
def test_what_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = save(tmp_path / "good.onnx", helper.make_node("Relu", ["x"], ["y"]))
    bad = save(tmp_path / "bad.onnx", helper.make_node("RandomNormalLike", ["x"], ["y"], "which"), (8, 8))
    text = tmp_path / "text.onnx"
    text.write_text("no model")
    assert main(["check", str(good), str(bad), str(text), "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["problem"] is None for each in found] == [True, False, False]
    assert found[1]["problem"].startswith(
        "bad.onnx: the operator RandomNormalLike (node 'which') cannot be built: its "
    )
    assert found[2]["problem"].endswith("text.onnx is not an ONNX file, or is truncated")


@pytest.mark.compiler
def test_an_input_that_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,)),
        helper.make_tensor_value_info("pads", TensorProto.INT64, (2,)),
    ]
    node = helper.make_node("Pad", ["x", "pads"], ["y"])
    graph = helper.make_graph([node], "net", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("N",))])
    path = str(tmp_path / "net.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert main(["check", path]) == 1
    assert "where pads decides what it computes, fix that: `--value pads=…`" in capsys.readouterr().out
    assert main(["check", path, "--value", "pads=[1, 2]", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["problem"], found["inputs"]) == (None, ["x float32[4]"])


def test_mistakes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tvmbuild", "check", "missing.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "error: there is no file missing.onnx\n  hint: Name a model's file: .onnx, .tflite, .pt2.\n",
    )
    wrong = subprocess.run([*command, "--shape", "x=a"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "'x=a' is not NAME=1,3,224,224" in wrong.stderr
    wrong = subprocess.run([*command, "--value", "sr=a"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "'sr=a' is not NAME=16000" in wrong.stderr


@pytest.mark.compiler
def test_the_words_of_an_exporter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A classifier of ultralytics: its task, its softmax and its names decide, and the names become a file."""
    names = ["cat", "big\ndog", *(f"thing {number}" for number in range(11))]
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
        helper.make_node("Reshape", ["probabilities", "shape"], ["y"]),
    ]
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 32, 32))
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 13))
    weights = [
        numpy_helper.from_array(np.random.default_rng(0).standard_normal((3, 13)).astype(np.float32), "w"),
        numpy_helper.from_array(np.array([1, 13]), "shape"),
    ]
    graph = helper.make_graph(nodes, "net", [picture], [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"task": "classify", "names": str(dict(enumerate(names)))})
    path, labels = tmp_path / "net.onnx", tmp_path / "labels.txt"
    onnx.save(model, str(path))
    assert main(["check", str(path), "--labels", str(labels)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "  the file names 13 classes (cat, big dog, thing 0, …); --labels FILE writes them" in told
    assert "  its outputs fit preprocess: {resize: crop}" in told
    assert " " * 18 + "postprocess: {classes: {activation: none}}" in told
    assert labels.read_text().splitlines()[:2] == ["cat", "big dog"]
    assert len(labels.read_text().splitlines()) == 13
    assert main(["check", str(path), "--labels", str(labels)]) == 1
    assert f"{labels} exists\n  hint: name a file that does not exist yet" in capsys.readouterr().err
    assert main(["check", str(path), str(path), "--labels", str(tmp_path / "new.txt")]) == 1
    assert "--labels writes the names of one model\n  hint: check one model at a time" in capsys.readouterr().err
    del model.metadata_props[:]
    onnx.save(model, str(path))
    assert main(["check", str(path), "--labels", str(tmp_path / "none.txt")]) == 1
    assert "has no names of classes" in capsys.readouterr().err
    assert not (tmp_path / "none.txt").exists()
