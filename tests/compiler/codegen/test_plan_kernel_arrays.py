"""The padded copy of a kernel's input becomes a tensor of the static plan; TVM's pools hold only what is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from planned_memory import legalize
from tvm import relax

from tvmbuild.compiler.codegen.executable import compile_module, plan_scheduled
from tvmbuild.compiler.codegen.plan_kernel_arrays import plan_kernel_arrays
from tvmbuild.compiler.codegen.scratch import Event, find_scratch
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.package.allocations import Scratch

SIDE, PADDED = 64, 8 * 66 * 66 * 4


def build(side: int = SIDE) -> tvm.ir.IRModule:
    """Return a convolution that pads, twice with the same kernel, as loops in their first order."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, side, side), "float32"))
    weight = relax.const(np.random.RandomState(0).uniform(-0.2, 0.2, (8, 8, 3, 3)).astype("float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.conv2d(x, weight, padding=1))
            out = builder.emit_output(relax.op.nn.conv2d(first, weight, padding=1))
        builder.emit_func_output(out)
    return legalize(builder.get())


def schedule(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    return map_prim_funcs(mod, lambda function, _name: mark_scheduled(function))


def explicit(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    rewrite = [relax.transform.ToNonDataflow(), relax.transform.RemovePurityChecking()]
    return tvm.transform.Sequential([*rewrite, relax.transform.CallTIRRewrite()])(mod)


@pytest.mark.compiler
def test_numbers_stay_and_the_plan_has_the_padded_copy(cpu: tvm.target.Target) -> None:
    before, after = (compile_module(mod, cpu) for mod in (build(), schedule(build())))
    assert before.memory.scratch.caller > PADDED
    assert after.memory.scratch == Scratch(0, 0)
    assert after.memory.workspace >= before.memory.workspace + PADDED
    assert max(after.memory.largest, key=lambda each: each.bytes).shape == (1, 8, SIDE + 2, SIDE + 2)
    assert plan_scheduled(schedule(build()), cpu) == after.memory
    assert plan_scheduled(build(), cpu) == before.memory
    value = np.random.RandomState(1).uniform(-1, 1, (1, 8, SIDE, SIDE)).astype("float32")
    results = []
    for each in (before, after):
        machine = relax.VirtualMachine(each.executable.jit(), tvm.cpu())
        results += [machine["main"](tvm.runtime.tensor(value)).numpy() for _ in range(2)]
    assert np.abs(results[0]).max() > 0.1
    assert all(np.array_equal(results[0], each) for each in results)


def test_kernels_without_a_schedule_or_with_small_arrays_stay_as_they_are() -> None:
    for mod in (build(), schedule(build(side=16))):
        lowered = explicit(mod)
        assert plan_kernel_arrays(lowered).same_as(lowered)
    assert not plan_kernel_arrays(explicit(schedule(build()))).same_as(explicit(schedule(build())))


def test_a_module_with_branches_stays_as_it_is() -> None:
    lowered = explicit(schedule(build()))
    function = lowered["main"]
    flag = relax.Var("flag", relax.TensorType((), "bool"))
    body = relax.SeqExpr(function.body.blocks, function.body.body)
    choice = relax.If(flag, body, relax.SeqExpr([], function.params[0]))
    var = relax.Var("chosen", function.params[0].ty)
    block = relax.BindingBlock([relax.VarBinding(var, choice)])
    whole = relax.Function([*function.params, flag], relax.SeqExpr([block], var), function.ret_ty, is_pure=False)
    lowered.update_func(lowered.get_global_var("main"), whole)
    assert plan_kernel_arrays(lowered).same_as(lowered)


@dataclass(frozen=True)
class Buffer:
    name: str


def allocate(name: str, size: int, *, in_parallel: bool = False) -> Event:
    return Event(Buffer(name), size, in_parallel)


def free(name: str, *, in_parallel: bool = False) -> Event:
    return Event(Buffer(name), 0, in_parallel)


def test_a_pool_keeps_blocks_and_makes_its_largest_larger() -> None:
    page = 4096
    found = {
        "nested": (allocate("a", 5 * page), allocate("b", 1), free("b"), free("a")),
        "large": (allocate("c", 8 * page - 1), free("c")),
        "small": (allocate("d", 1), free("d")),
        "rows": (allocate("e", 2 * page, in_parallel=True), free("e", in_parallel=True)),
    }
    assert find_scratch(["nested"], found) == Scratch(6 * page, 0)
    assert find_scratch(["nested", "nested", "small"], found) == Scratch(6 * page, 0)
    assert find_scratch(["nested", "large"], found) == Scratch(9 * page, 0)
    assert find_scratch(["small", "large"], found) == Scratch(8 * page, 0)
    assert find_scratch(["nested", "rows"], found) == Scratch(6 * page, 2 * page)
    assert find_scratch(["unknown"], found) == Scratch(0, 0)
    assert Scratch(6, 2).of_threads(3) == 10
