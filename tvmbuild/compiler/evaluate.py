"""The evaluation of a lowered module in this process, scheduled by rule: it checks numbers, not speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.package.counts import cut_outputs
from tvmbuild.package.runtime.host import find_device

Arrays = Mapping[str, np.ndarray]


def build_here(lowered: Lowered, target: tvm.target.Target) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """Schedule and build a module for ``target``; return a function from inputs to outputs, each an array by name.

    This machine must be able to run code for ``target``. If TVM cannot build an operator, a TvmbuildError names it.
    """
    applied = apply_records(lowered, target, MemoryDatabase())
    device = find_device(str(target.kind.name))
    machine = relax.VirtualMachine(build_executable(applied.mod, target).jit(), device)

    def compute(inputs: Arrays) -> dict[str, np.ndarray]:
        given = (np.asarray(inputs[info.name], order="C") for info in lowered.inputs)
        result = machine["main"](*(tvm.runtime.tensor(each, device) for each in given))
        results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return cut_outputs(lowered.outputs, [value.numpy() for value in results])

    return compute
