"""A small transformer whose batch and length vary, and its package with sizes, built by the real stages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from doit_project import DODO
from made_once import make_once
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, OUT = 50, 64, 24
MODEL = """\
models:
  net:
    source: {path: net.onnx}
    inputs: {ids: {shape: [B, T], range: [0, 50]}, mask: {shape: [B, T], range: [1, 2]}}
    sizes: {"B,T": [[1, 8], [2, 8], [2, 16], [4, 24]]}
    pad: {mask: 0}
"""
TARGETS = """\
targets:
  v3: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2, benchmark: {repeat: 3, baselines: []}}
"""


@dataclass(frozen=True)
class SizedProject:
    """A project with one model of varying shape."""

    root: Path
    target: str = "v3"

    def write(self, models: str = MODEL) -> None:
        """Write models.yaml."""
        (self.root / "models.yaml").write_text(models)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run doit with words such as `compile`, without a search."""
        return self.command(*words, "tune=never")

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of tvmbuild's commands."""
        command = [sys.executable, "-W", "ignore", "-m", "tvmbuild", *words]
        runtime = self.root / "runtime"  # not the project: a folder `tvmbuild` in it would hide the installed package
        runtime.mkdir(exist_ok=True)
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(runtime), TVM_NUM_THREADS="2")
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False, timeout=400
        )

    @property
    def package(self) -> Path:
        """The package."""
        return self.root / f"build/cells/net@{self.target}/net-{self.target}.tar"


def make_project(root: Path, models: str = MODEL, net: onnx.ModelProto | None = None) -> SizedProject:
    """Return a project with a model, by default the masked network, in an empty folder."""
    onnx.save(make_masked_net() if net is None else net, root / "net.onnx")
    (root / "targets.yaml").write_text(TARGETS)
    (root / "dodo.py").write_text(DODO)
    root.chmod(0o700)
    project = SizedProject(root)
    project.write(models)
    return project


def build_project(root: Path) -> SizedProject:
    """Return a project in the empty folder ``root`` whose package is built. Equal ones are built once."""

    def build(folder: Path) -> None:
        done = make_project(folder).run("compile")
        assert done.returncode == 0, done.stdout + done.stderr

    shutil.copytree(make_once("sized project", build), root, dirs_exist_ok=True)
    return SizedProject(root)


def make_masked_net() -> onnx.ModelProto:
    """Return attention over the tokens that a mask calls real: ids, mask [B, T] → rows [B, T, OUT], pooled [B, OUT]."""
    random = np.random.RandomState(0)
    weights = {
        "table": random.uniform(-1, 1, (VOCABULARY, WIDTH)),
        "query": random.uniform(-0.2, 0.2, (WIDTH, WIDTH)),
        "out": random.uniform(-0.2, 0.2, (WIDTH, OUT)),
        "one": np.array(1.0),
        "large": np.array(1e9),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "query"], ["q"]),
        helper.make_node("Transpose", ["e"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["plain"]),
        helper.make_node("Cast", ["mask"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["real", "one"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "large"], ["far"]),
        helper.make_node("Unsqueeze", ["far", "axis"], ["bias"]),
        helper.make_node("Add", ["plain", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "e"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "out"], ["rows"]),
        helper.make_node("Unsqueeze", ["real", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "axis"], ["pooled"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("ids", "mask")],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", "sequence", OUT]),
            helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["batch", OUT]),
        ],
        [
            *(numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()),
            numpy_helper.from_array(np.array([1]), "axis"),
            numpy_helper.from_array(np.array([2]), "last"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def draw_inputs(batch: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return inputs of a size, with a row that ends early."""
    random = np.random.default_rng(seed)
    mask = np.ones((batch, length), np.int64)
    mask[-1, max(1, length // 2) :] = 0
    return {"ids": random.integers(0, VOCABULARY, (batch, length)), "mask": mask}
