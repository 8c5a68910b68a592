"""Compute a lowered module in this process, by rule: whether its numbers are right, not how fast it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.pipeline import Lowered

Arrays = Mapping[str, np.ndarray]


def build_here(lowered: Lowered, target: tvm.target.Target) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """Schedule and build for ``target``, a CPU that this machine can stand for; return inputs → outputs by name.

    TvmbuildError names an operator that TVM cannot build.
    """
    applied = apply_records(lowered, target, MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, target).jit(), tvm.cpu())

    def compute(inputs: Arrays) -> dict[str, np.ndarray]:
        result = machine["main"](*(tvm.runtime.tensor(np.asarray(inputs[i.name], order="C")) for i in lowered.inputs))
        results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return {info.name: value.numpy() for info, value in zip(lowered.outputs, results, strict=True)}

    return compute
