"""Independent kernels follow each other, and the memory plan lets them run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from planned_memory import legalize, plan
from tvm import relax

from tvmbuild.compiler.codegen.executable import VIRTUAL_MACHINE
from tvmbuild.compiler.codegen.group_independent_kernels import group_independent_kernels
from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.pass_manager import Lowering, Phase, as_tvms

SHAPE = (4, 6)
ORDER = tvm.transform.module_pass(lambda mod, _: group_independent_kernels(mod), opt_level=0)
Reads = tuple[int, int]
"""The numbers of the values that an operator reads; 0 is the input."""


def build(operators: Sequence[Reads]) -> tvm.ir.IRModule:
    """Return a main with two kernels per operator, a sum and a product; every third product is reshaped twice."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            values: list[relax.Expr] = [x]
            for number, (first, second) in enumerate(operators):
                value = builder.emit(relax.op.multiply(values[first], relax.op.add(values[second], x)))
                if number % 3 == 0:
                    value = builder.emit(relax.op.reshape(builder.emit(relax.op.reshape(value, (24,))), SHAPE))
                values.append(value)
            out = builder.emit_output(relax.Tuple(values[-2:]))
        builder.emit_func_output(out)
    return legalize(builder.get())


def count_barriers(mod: tvm.ir.IRModule) -> tuple[int, int]:
    """Return the number of kernels, and of the barriers that the Vulkan runtime puts between them (its hazards.h)."""
    places: dict[relax.Var, relax.Var] = {}
    written: set[relax.Var] = set()
    since: list[tuple[relax.Var, bool]] = []
    kernels = barriers = 0
    for binding in (each for block in mod["main"].body.blocks for each in block.bindings):
        value = binding.value
        if is_call(value, "relax.memory.alloc_storage"):
            places[binding.var] = binding.var
        elif is_call(value, "relax.memory.alloc_tensor") or is_call(value, "relax.reshape"):
            places[binding.var] = places[value.args[0]]
        elif isinstance(value, relax.Var):
            places[binding.var] = places[value]
        elif isinstance(value, relax.Call):
            *reads, output = value.args
            uses = [(places.get(each, each), False) for each in reads] + [(places[output], True)]
            assert output not in written
            written.add(output)
            if any(place.same_as(other) and (w or v) for place, w in uses for other, v in since):
                barriers, since = barriers + 1, []
            since += uses
            kernels += 1
    return kernels, barriers


def test_two_towers_have_half_the_barriers(cpu: tvm.target.Target) -> None:
    with cpu:
        one_after_the_other = [*((number, number) for number in range(7)), (0, 0), *((n, n) for n in range(8, 14))]
        kernels, before = count_barriers(plan(build(one_after_the_other)))
        assert (kernels, before) == (28, 27)
        assert count_barriers(plan(build(one_after_the_other), ORDER)) == (28, 13)


def test_a_chain_stays_as_it_is(cpu: tvm.target.Target) -> None:
    with cpu:
        chain = build([(number, number) for number in range(6)])
        assert tvm_ffi.structural_equal(plan(chain, ORDER), plan(chain))


def test_what_it_does_not_know_stays_as_it_is() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        called = relax.Call(relax.ExternFunc("somewhere.else"), [x], ty_args=[relax.TensorType(SHAPE, "float32")])
        builder.emit_func_output(builder.emit(called))
    mod = builder.get()
    assert group_independent_kernels(mod).same_as(mod)


@pytest.mark.compiler
@settings(max_examples=draws(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_drawn_graphs_keep_their_numbers_and_gain_no_barrier(data: st.DataObject, cpu: tvm.target.Target) -> None:
    count = data.draw(st.integers(2, 12))
    operators = [(data.draw(st.integers(0, number)), data.draw(st.integers(0, number))) for number in range(count)]
    with cpu:
        (_, before), (_, after) = (count_barriers(plan(build(operators), *order)) for order in ((), (ORDER,)))
        assert after <= before
        rows = [
            replace(each, when=()) if each.name == "GroupIndependentKernels" else each
            for each in VIRTUAL_MACHINE.passes
        ]
        passes = as_tvms(Phase("virtual machine", rows), Lowering(cpu))
        built = relax.build(build(operators), cpu, relax_pipeline=passes)
        machine = relax.VirtualMachine(built, tvm.cpu())
    x = np.random.default_rng(0).uniform(0.1, 0.6, SHAPE).astype(np.float32)
    values = [x]
    for first, second in operators:
        values.append(values[first] * (values[second] + x))
    got = machine["main"](tvm.runtime.tensor(x))
    for each, want in zip(got, values[-2:], strict=True):
        np.testing.assert_allclose(each.numpy(), want, rtol=1e-5)
