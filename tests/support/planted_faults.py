"""Faults that are planted into the real compiler, one at a time: wrong converters, passes, kernels and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

import onnx
import tvm
import tvm_ffi
from drawn_schedules import draw_schedules
from tvm import relax, tirx
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.scheduling import import_for, lower_to_tasks, make_target
from tvmbuild.compiler.importing import importer
from tvmbuild.compiler.importing.converters import table
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import is_scheduled, list_blocks
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.pass_manager import Lowering, Pass, Phase
from tvmbuild.compiler.tasks import Task
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import NO_RECORDS, Schedule
from tvmbuild.replay.traces import dump_trace

Damage = Callable[[tvm.ir.IRModule, Lowering], tvm.ir.IRModule]
"""A function that makes a module wrong."""


@dataclass(frozen=True)
class Fault:
    """A fault, the network in which it shows, and the answer that `debug` should give."""

    what: str
    net: str
    plant: Callable[[], Any]
    """Returns a context in which the compiler has the fault."""
    nodes: tuple[str, ...]
    """The nodes at fault: one of them must be named."""
    fixes: str | None = None
    """The variant that fixes it, if there is one."""
    precision: Any = "fp32"
    schedule: Callable[[onnx.ModelProto, PackageTarget], Schedule] = lambda _model, _target: NO_RECORDS


# Converters.


@contextmanager
def wrong_converter(operator: str, convert: Callable[[NodeCall], relax.Expr]) -> Iterator[None]:
    """Convert nodes of an operator by another function."""
    with patch.object(importer, "CONVERTERS", {**table.CONVERTERS, operator: convert}):
        yield


def wrong_attribute(operator: str, **attributes: Any) -> Any:
    """Give every node of an operator other attributes."""
    right = table.CONVERTERS.get(operator)

    def convert(call: NodeCall) -> relax.Expr:
        call.attributes.update(attributes)
        return call.by_tvm() if right is None else right(call)

    return wrong_converter(operator, convert)


def wrong_inputs(operator: str, change: Callable[[list[Any]], list[Any]]) -> Any:
    """Give every node of an operator other inputs."""
    right = table.CONVERTERS.get(operator)

    def convert(call: NodeCall) -> relax.Expr:
        call.inputs[:] = change(list(call.inputs))
        return call.by_tvm() if right is None else right(call)

    return wrong_converter(operator, convert)


def wrong_result(operator: str, change: Callable[[NodeCall, relax.Expr], relax.Expr]) -> Any:
    """Change the result of every node of an operator."""
    right = table.CONVERTERS.get(operator)

    def convert(call: NodeCall) -> relax.Expr:
        result = call.builder.emit(call.by_tvm() if right is None else right(call))
        return change(call, result)

    return wrong_converter(operator, convert)


# Passes.


@contextmanager
def wrong_pass(module: ModuleType, phase: str, name: str, damage: Damage) -> Iterator[None]:
    """Let a pass make its result wrong, where it changed the module."""
    old: Phase = getattr(module, phase)
    right = next(each for each in old.passes if each.name == name)

    def change(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
        changed = right.change(mod, lowering)
        return changed if tvm_ffi.structural_equal(mod, changed) else damage(changed, lowering)

    wrong = replace(right, change=change)
    with patch.object(module, phase, Phase(old.name, tuple(wrong if each is right else each for each in old.passes))):
        yield


@contextmanager
def extra_pass(module: ModuleType, phase: str, damage: Damage) -> Iterator[None]:
    """Run our wrong pass at the end of a phase."""
    old: Phase = getattr(module, phase)
    with patch.object(module, phase, Phase(old.name, (*old.passes, Pass("Planted", damage)))):
        yield


def on_calls(operator: str, make: Callable[[relax.BlockBuilder, relax.Call], relax.Expr], outputs: int = 0) -> Damage:
    """Replace calls of a Relax operator, of those with ``outputs`` in their shape if it is given."""

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != f"relax.{operator}":
            return None
        sizes = [int(each) for each in call.ty.shape]
        return make(builder, call) if not outputs or outputs in sizes else None

    return lambda mod, _: rewrite_calls(mod, rule)


def scale_by(factor: float) -> Callable[[relax.BlockBuilder, relax.Call], relax.Expr]:
    """Multiply a call's result."""
    return lambda builder, call: relax.op.multiply(builder.emit(call), relax.const(factor, str(call.ty.dtype)))


def in_float16(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Compute a product in float16."""
    left, right = (builder.emit(relax.op.astype(each, "float16")) for each in call.args)
    return relax.op.astype(builder.emit(relax.op.matmul(left, right, "float16")), "float32")


def turn_weights(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Swap height and width of a convolution's weights."""
    weights = builder.emit(relax.op.permute_dims(call.args[1], [0, 1, 3, 2]))
    return relax.Call(call.op, [call.args[0], weights], call.attrs, call.ty_args)


# TensorIR.


def on_functions(part: str, change: Callable[[tirx.PrimFunc], tirx.PrimFunc], only: Any = None) -> Damage:
    """Change the functions whose name has a part; ``only`` takes a function and the lowering."""

    def damage(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
        def one(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc | None:
            chosen = part in name and (only is None or only(function, lowering))
            return change(function) if chosen else None

        return map_prim_funcs(mod, one)

    return damage


def _map(kind: type, change: Callable[[Any], Any]) -> Callable[[tirx.PrimFunc], tirx.PrimFunc]:
    def changed(function: tirx.PrimFunc) -> tirx.PrimFunc:
        body = tvm_ffi.structural_map(function.body, (kind, change))
        return function.with_body(body)

    return changed


def wrong_exp(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace exp by a driver's, whose argument is off by a hundredth."""

    def change(call: Any) -> Any:
        is_exp = isinstance(call.op, tvm.ir.Op) and call.op.name == "tirx.exp"
        return tirx.exp(call.args[0] * tirx.FloatImm("float32", 1.01)) if is_exp else call

    return _map(tvm.ir.Call, change)(function)


def wrong_constant(old: float, new: float) -> Callable[[tirx.PrimFunc], tirx.PrimFunc]:
    """Replace a constant."""

    def change(number: Any) -> Any:
        return tirx.FloatImm(str(number.ty.dtype), new) if abs(float(number.value) - old) < 1e-9 else number

    return _map(tirx.FloatImm, change)


def scale_stores(factor: float) -> Callable[[tirx.PrimFunc], tirx.PrimFunc]:
    """Multiply everything that is stored to an output of float32."""

    def change(store: Any) -> Any:
        if str(store.value.ty.dtype) != "float32":
            return store
        value = store.value * tirx.FloatImm("float32", factor)
        return tirx.BufferStore(store.buffer, value, store.indices)

    return _map(tirx.BufferStore, change)


# Schedules.


def with_winograd(model: onnx.ModelProto, target: PackageTarget) -> Schedule:
    """Compute every convolution that can be by Winograd's F(4x4)."""
    lowered, _ = lower_to_tasks(import_for(model.SerializeToString(), target, "net"), make_target(target))
    chosen = {each.convolution.signature: "winograd4" for each in lowered.convolutions}
    return replace(NO_RECORDS, algorithms=FrozenMap(sorted(chosen.items())))


def with_record(part: str) -> Callable[[onnx.ModelProto, PackageTarget], Schedule]:
    """Return a Schedule with a real record of each Task whose name has this part."""

    def make(model: onnx.ModelProto, target: PackageTarget) -> Schedule:
        own = make_target(target)
        _, tasks = lower_to_tasks(import_for(model.SerializeToString(), target, "net"), own)
        traces = {task.key: _draw_trace(task, own) for task in tasks if part in task.name}
        return replace(NO_RECORDS, traces=FrozenMap(sorted(traces.items())))

    return make


def _draw_trace(task: Task, target: tvm.target.Target) -> str:
    workload = ms.database.MemoryDatabase().commit_workload(task.mod)
    schedule = next(draw_schedules(task, target))
    return dump_trace(ms.database.TuningRecord(schedule.trace, workload, [1.0], target, None))


def by_record(function: tirx.PrimFunc, _lowering: Lowering) -> bool:
    """Return whether a record has scheduled the function."""
    return is_scheduled(function)


def is_optimised(_function: tirx.PrimFunc, lowering: Lowering) -> bool:
    """Return whether LLVM optimises the code."""
    return int(dict(lowering.target.attrs).get("opt-level", 3)) > 0


def is_fused(function: tirx.PrimFunc, _lowering: Lowering) -> bool:
    """Return whether the function computes several operators."""
    return len([block for block in list_blocks(function) if block.name_hint != "root"]) > 1
