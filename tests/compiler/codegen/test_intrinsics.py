"""Tensor intrinsics are registered if a trace names them; a build by rule does not import TVM's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import node

SaveModel = Callable[..., Path]
BUILD = """
import sys
from pathlib import Path
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.scheduling import schedule_model
from tvmbuild.package.metadata import PackageTarget
from tvm.s_tir import TensorIntrin
attributes = FrozenMap({"arch": "sm_86", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152})
target = PackageTarget("card", "cuda", attributes, FrozenMap({"kind": "llvm"}), precision="fp16")
schedule_model(Path(sys.argv[1]), target)
used = TensorIntrin.get("tensor_core_multiply", allow_missing=True) is not None
print(used, "tvm.s_tir.tensor_intrin.cuda" in sys.modules)
"""
REGISTER = """
import json, sys
from tvmbuild.compiler.codegen.intrinsics import register_named, skip_tensor_intrinsics
skip_tensor_intrinsics()
from tvm.s_tir import TensorIntrin
for name in sys.argv[1:]:
    known = TensorIntrin.get(name, allow_missing=True) is not None
    register_named(json.dumps([["Tensorize", ["b0"], [name, True], []]]))
    print(name, known, TensorIntrin.get(name, allow_missing=True) is not None)
"""


def run(script: str, *words: str) -> str:
    """Run a script in a process of its own, because a registration lasts as long as its process."""
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.compiler
def test_a_float16_build_does_not_import_tvms_intrinsics(save_model: SaveModel) -> None:
    weights = np.random.RandomState(0).uniform(-1, 1, (64, 32, 1, 1)).astype(np.float32)
    model = save_model([node("Conv", "x", "w")], {"w": weights}, (1, 32, 32, 32))
    assert run(BUILD, str(model)).endswith("True False\n")


@pytest.mark.parametrize(
    "name",
    [
        "tensor_core_multiply",
        "tensor_core_fill_float32",
        "dot_avx512_vnni_1",
        "dot_avx512_vnni_columns",
        "dp4a_s8s8s32",
    ],
)
def test_a_named_intrinsic_is_registered(name: str) -> None:
    assert run(REGISTER, name) == f"{name} False True\n"


def test_an_unknown_name_stays_unknown() -> None:
    assert run(REGISTER, "made_up") == "made_up False False\n"
