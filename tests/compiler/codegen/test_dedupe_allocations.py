"""Equal tensors at one place are made once, and their reshapes need no call."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from planned_memory import legalize, plan
from tvm import relax

from tvmbuild.compiler.codegen.dedupe_allocations import dedupe_allocations
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.ir.calls import operator_calls

ROUNDS = 6


def build(shape: tuple[int, ...] = (4, 6)) -> tvm.ir.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: relax.Expr = x
            for number in range(ROUNDS):
                value = builder.emit(relax.op.nn.softmax(value, axis=-1))
                value = builder.emit(relax.op.reshape(value, (3, 8) if number % 2 == 0 else shape))
            first = builder.emit(relax.op.exp(value))
            out = builder.emit_output(relax.Tuple([first, builder.emit(relax.op.nn.softmax(first, axis=-1))]))
        builder.emit_func_output(out)
    return legalize(builder.get())


def test_calls_become_fewer(cpu: tvm.target.Target) -> None:
    with cpu:
        mod = plan(build())
        once = dedupe_allocations(mod)
    assert len(operator_calls(mod, "relax.reshape")) == ROUNDS
    assert operator_calls(once, "relax.reshape") == ()
    before, after = (operator_calls(each, "relax.memory.alloc_tensor") for each in (mod, once))
    assert len(after) < len(before) + ROUNDS
    assert len({tvm_ffi.structural_hash(call) for call in after}) == len(after)
    assert relax.analysis.check_well_formed(once) == relax.analysis.check_well_formed(mod)


@pytest.mark.compiler
def test_the_numbers_stay_and_outputs_are_not_shared(cpu: tvm.target.Target) -> None:
    machine = relax.VirtualMachine(build_executable(build(), cpu).jit(), tvm.cpu())
    results = []
    for seed in range(3):
        data = np.random.RandomState(seed).normal(0, 1, (4, 6)).astype("float32")
        want = data
        for number in range(ROUNDS):
            powers = np.exp(want)
            want = (powers / powers.sum(-1, keepdims=True)).reshape((3, 8) if number % 2 == 0 else (4, 6))
        results.append((machine["main"](tvm.runtime.tensor(data)), np.exp(want)))
    for (first, second), want in results:  # compared after all calls: each result has its own memory
        np.testing.assert_allclose(first.numpy(), want, rtol=1e-5)
        powers = np.exp(want)
        np.testing.assert_allclose(second.numpy(), powers / powers.sum(-1, keepdims=True), rtol=1e-5)
