"""The pass: quantised tensors are followed from a dequantisation to the next quantisation.

What lies between as float32 stays in the graph where something needs it, and falls away where nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.calls import operator_calls
from tvmbuild.compiler.expressions import constant, static_shape
from tvmbuild.compiler.graph.integers.elementary import dequantise, quantise, requantise, sum_up
from tvmbuild.compiler.graph.integers.products import convolve, multiply
from tvmbuild.compiler.graph.integers.values import MOST, UNSIGNED, ByChannel, Joined, Known, Quantised, Steps, Sum
from tvmbuild.compiler.graph.rewrite import rewrite_main

Tracked = Quantised | ByChannel | Known | Sum | Joined


def use_integers(mod: tvm.ir.IRModule, *, signed: bool = False) -> tvm.ir.IRModule:
    """Compute in integers what stands between quantisations; a module without any stays as it is.

    ``signed``: products and dense convolutions get their data as int8, which the target's dot instruction takes.
    """
    if not operator_calls(mod, "relax.dequantize"):
        return mod
    rewritten = relax.transform.CanonicalizeBindings()(rewrite_main(mod, _Rewriter(mod, signed=signed)))
    return relax.transform.DeadCodeElimination()(rewritten)


@mutator
class _Rewriter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, *, signed: bool) -> None:
        super().__init__(mod)
        self._wants_signed = signed
        self._tracked: dict[relax.Var, Tracked] = {}
        self._unsigned: dict[relax.Var, relax.Expr] = {}
        """int8 → the same integers and UNSIGNED more, as uint8."""
        self._signed: dict[relax.Expr, relax.Expr] = {}
        """The other way round."""
        self._by_channel: dict[relax.Var, tuple[relax.Call, ByChannel]] = {}
        """What was rounded in other steps in each channel: how, and the integers."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        rule = self._RULES.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        result = None if rule is None else rule(self, call)
        return call if result is None else result

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        item = super().visit_tuple_getitem_(item)
        found = self._find(item.tuple_value)
        if not isinstance(found, Quantised):
            return item
        return self._restore(replace(found, value=self._emit(relax.TupleGetItem(found.value, item.index))))

    # ------------------------------------------------------------------- what is known

    def _emit(self, expr: relax.Expr) -> relax.Expr:
        return self.builder_.emit(expr)

    def _origin(self, expr: relax.Expr) -> relax.Expr:
        """Return the first of the variables that are one another."""
        while isinstance(expr, relax.Var) and isinstance(found := self.lookup_binding(expr), relax.Var):
            expr = found
        return expr

    def _find(self, expr: relax.Expr) -> Tracked | None:
        origin = self._origin(expr)
        return self._tracked.get(origin) if isinstance(origin, relax.Var) else None

    def _track(self, expr: relax.Expr, tracked: Tracked) -> relax.Expr:
        variable = self._emit(expr)
        self._tracked[variable] = tracked
        return variable

    def _restore(self, made: Quantised | ByChannel) -> relax.Expr:
        """Return the numbers that integers stand for."""
        return self._track(dequantise(self._emit, made), made)

    def _number(self, expr: relax.Expr) -> np.ndarray[Any, Any] | None:
        """Return a constant of float32, dequantised or not."""
        found = self._find(expr)
        if isinstance(found, Known):
            return found.numbers
        value = _read_constant(self, expr)
        return value if value is not None and value.dtype == np.float32 else None

    # ------------------------------------------------------------------- between the two worlds

    def _dequantise(self, call: relax.Call) -> relax.Expr | None:
        data, scales, zeros = (_read_constant(self, each) for each in call.args)
        if scales is None or zeros is None or scales.dtype != np.float32 or str(call.ty.dtype) != "float32":
            return None
        if data is not None and data.dtype.kind in "iu":
            axis = int(call.attrs.axis) % max(data.ndim, 1)
            known = Known(data, scales, zeros.astype(np.int64), axis)
            return self._track(constant(known.numbers), known)
        origin = self._origin(call.args[0])
        if origin in self._by_channel:
            rounded, by_channel = self._by_channel[origin]
            return self._restore(by_channel) if self._has_steps_of(call, rounded) else None
        twin = self._unsigned.get(origin) if isinstance(origin, relax.Var) else None
        if twin is None and str(call.args[0].ty.dtype) == "int8":
            twin = self._shift(call.args[0], UNSIGNED, "uint8")  # an input, or what moves integers made it
        if scales.size > 1 or (twin is None and str(call.args[0].ty.dtype) != "uint8"):
            return None
        zero = int(zeros.reshape(())) + (0 if twin is None else UNSIGNED)
        source = Quantised(call.args[0] if twin is None else twin, np.float32(scales.reshape(())), zero)
        return self._restore(source)

    def _quantise(self, call: relax.Call) -> relax.Expr | None:
        scales, zeros = (_read_constant(self, each) for each in call.args[1:])
        dtype = str(call.ty.dtype)
        if scales is None or zeros is None or dtype not in {"uint8", "int8"}:
            return None
        if scales.dtype != np.float32 or str(call.args[0].ty.dtype) != "float32":
            return None
        if scales.size > 1:
            return self._quantise_channels(call, scales, zeros)
        scale, zero = np.float32(scales.reshape(())), int(zeros.reshape(())) + (UNSIGNED if dtype == "int8" else 0)
        made = self._emit(self._to_integers(call.args[0], Steps(scale, zero)))
        if dtype == "uint8":
            return made
        signed = self._shift(made, -UNSIGNED, "int8")
        self._unsigned[signed] = made
        self._signed[made] = signed
        return signed

    def _quantise_channels(
        self, call: relax.Call, scales: np.ndarray[Any, Any], zeros: np.ndarray[Any, Any]
    ) -> relax.Expr | None:
        """Round to integers without their zeros where those differ, and to what is asked for where it is needed."""
        shape, dtype = static_shape(call), str(call.ty.dtype)
        if shape is None or len(shape) != 4 or int(call.attrs.axis) % 4 != 1:
            return None
        of_channels = np.broadcast_to(zeros, scales.shape).astype(np.int64).reshape(1, -1, 1, 1)
        scale, most = scales.reshape(1, -1, 1, 1), np.iinfo(dtype)
        if dtype == "uint8" and np.all(zeros == zeros.flat[0]):
            made = self._emit(self._to_integers(call.args[0], Steps(scale, int(zeros.flat[0]))))
            self._by_channel[made] = call, ByChannel(made, scale, int(zeros.flat[0]))
            return made
        steps = Steps(scale, 0, most.min - of_channels, most.max - of_channels, "int16")
        centred = self._emit(self._to_integers(call.args[0], steps))
        shifted = self._emit(relax.op.add(centred, constant(of_channels.astype(np.int16))))
        made = self._emit(relax.op.astype(shifted, dtype))
        self._by_channel[made] = call, ByChannel(centred, scale)
        return made

    def _has_steps_of(self, call: relax.Call, other: relax.Call) -> bool:
        """Say whether both go by equal scales and zeros along one axis."""
        if int(call.attrs.axis) % 4 != int(other.attrs.axis) % 4:
            return False
        pairs = (
            (_read_constant(self, one), _read_constant(self, two))
            for one, two in zip(call.args[1:], other.args[1:], strict=True)
        )
        return all(one is not None and two is not None and np.array_equal(one, two) for one, two in pairs)

    def _shift(self, value: relax.Expr, by: int, dtype: str) -> relax.Expr:
        wide = self._emit(relax.op.add(self._emit(relax.op.astype(value, "int16")), constant(np.int16(by))))
        return self._emit(relax.op.astype(wide, dtype))

    def _to_integers(self, data: relax.Expr, steps: Steps) -> relax.Expr:
        found = self._find(data)
        if isinstance(found, Sum):
            return requantise(self._emit, found, steps)
        if isinstance(found, Quantised) and found.is_of(steps):
            return found.value
        if isinstance(found, Joined) and np.ndim(steps.scale) == 0:  # each part is rounded as it would be in its place
            parts = [self._emit(self._to_integers(part, steps)) for part in found.parts]
            return relax.op.concat(parts, found.axis)
        return quantise(self._emit, data, steps)

    # ------------------------------------------------------------------- sums

    def _convolve(self, call: relax.Call) -> relax.Expr | None:
        def compute(data: Quantised | ByChannel, weights: Known) -> Sum | None:
            if self._wants_signed and int(call.attrs.groups) == 1 and isinstance(data, Quantised):
                data = self._sign(data)
            return convolve(self._emit, call, data, weights)

        return self._product(call, compute)

    def _sign(self, data: Quantised) -> Quantised:
        """Return the same numbers by int8."""
        origin = self._origin(data.value)
        if origin not in self._signed:
            self._signed[origin] = self._shift(data.value, -UNSIGNED, "int8")
        return replace(data, value=self._signed[origin], zero=data.zero - UNSIGNED)

    def _multiply(self, call: relax.Call) -> relax.Expr | None:
        def compute(data: Quantised | ByChannel, weights: Known) -> Sum | None:
            if isinstance(data, ByChannel):
                return None
            return multiply(self._emit, self._sign(data) if self._wants_signed else data, weights)

        return self._product(call, compute)

    def _product(
        self, call: relax.Call, compute: Callable[[Quantised | ByChannel, Known], Sum | None]
    ) -> relax.Expr | None:
        data, weights = (self._find(each) for each in call.args)
        if not isinstance(data, Quantised | ByChannel) or not isinstance(weights, Known):
            return None
        made = compute(data, weights)
        return None if made is None else self._track(sum_up(self._emit, made), made)

    def _add(self, call: relax.Call) -> relax.Expr | None:
        """Take a constant that is added, a bias, as a number of the sum's steps."""
        for one, other in (call.args, reversed(call.args)):
            found, bias = self._find(one), self._number(other)
            if isinstance(found, Sum) and bias is not None and not found.is_bounded:
                return self._add_bias(call, found, bias)
        return None

    def _add_bias(self, call: relax.Call, found: Sum, bias: np.ndarray[Any, Any]) -> relax.Expr | None:
        if static_shape(call) != static_shape(found.value):
            return None
        shape = np.broadcast_shapes(found.offset.shape, found.scale.shape)
        steps = np.rint(_drop_leading_ones(bias, len(shape)).astype(np.float64) / found.scale)
        if steps.size > max(int(np.prod(shape)), 1) or not np.all(np.abs(steps) < MOST):
            return None
        return self._track(call, replace(found, offset=found.offset + steps.astype(np.int64)))

    def _bound(self, call: relax.Call, low: float, high: float) -> relax.Expr | None:
        found = self._find(call.args[0])
        if not isinstance(found, Sum):
            return None
        low, high = (min(max(each, low), high) for each in (found.low, found.high))
        return self._track(call, replace(found, low=low, high=high))

    def _relu(self, call: relax.Call) -> relax.Expr | None:
        return self._bound(call, 0.0, float("inf"))

    def _clip(self, call: relax.Call) -> relax.Expr | None:
        low, high = (float(each.value) if hasattr(each, "value") else None for each in call.args[1:])
        return None if low is None or high is None else self._bound(call, low, high)

    # ------------------------------------------------------------------- what leaves numbers as they are

    def _move(self, call: relax.Call) -> relax.Expr | None:
        """Do to the integers what is done to the numbers."""
        found = self._find(call.args[0])
        if isinstance(found, Known):
            return self._move_known(call, found)
        if not isinstance(found, Quantised):
            return None
        moved = self._emit(relax.Call(call.op, [found.value, *call.args[1:]], call.attrs))
        return self._restore(replace(found, value=moved))

    def _move_known(self, call: relax.Call, found: Known) -> relax.Expr | None:
        if call.op.name == "relax.permute_dims":
            rank = found.values.ndim
            axes = tuple(int(axis) % rank for axis in call.attrs.axes or range(rank)[::-1])
            return self._track(call, found.transpose(axes))
        shape = static_shape(call)
        if call.op.name == "relax.reshape" and shape is not None and (found.values.ndim == 1 or not found.is_per_axis):
            if not found.is_per_axis:
                return self._track(call, replace(found, values=found.values.reshape(shape), axis=0))
            if shape.count(found.values.size) == 1:
                axis = shape.index(found.values.size)
                return self._track(call, replace(found, values=found.values.reshape(shape), axis=axis))
        return None

    def _concat(self, call: relax.Call) -> relax.Expr | None:
        parts = self.lookup_binding(call.args[0]) if isinstance(call.args[0], relax.Var) else call.args[0]
        if not isinstance(parts, relax.Tuple):
            return None
        found = [each for part in parts.fields if isinstance(each := self._find(part), Quantised)]
        if len(found) < len(parts.fields) or not all(each.has_steps_of(found[0]) for each in found):
            return self._track(call, Joined(tuple(parts.fields), int(call.attrs.axis)))
        joined = self._emit(relax.op.concat([each.value for each in found], call.attrs.axis))
        return self._restore(replace(found[0], value=joined))

    def _split(self, call: relax.Call) -> relax.Expr | None:
        found = self._find(call.args[0])
        if not isinstance(found, Quantised):
            return None
        apart = self._emit(relax.Call(call.op, [found.value], call.attrs))
        return self._track(call, replace(found, value=apart))

    _RULES: ClassVar[Mapping[str, Callable[[Any, relax.Call], relax.Expr | None]]] = {
        "relax.quantize": _quantise,
        "relax.dequantize": _dequantise,
        "relax.nn.conv2d": _convolve,
        "relax.matmul": _multiply,
        "relax.add": _add,
        "relax.nn.relu": _relu,
        "relax.clip": _clip,
        "relax.concat": _concat,
        "relax.split": _split,
        **dict.fromkeys(
            (
                *("relax.reshape", "relax.permute_dims", "relax.squeeze", "relax.expand_dims", "relax.flatten"),
                *("relax.strided_slice", "relax.nn.max_pool2d"),
            ),
            _move,
        ),
    }


def _read_constant(rewriter: PyExprMutator, expr: relax.Expr) -> np.ndarray[Any, Any] | None:
    while isinstance(expr, relax.Var) and (found := rewriter.lookup_binding(expr)) is not None:
        expr = found
    return expr.value.numpy() if isinstance(expr, tvm.ir.GenericConst) else None


def _drop_leading_ones(array: np.ndarray[Any, Any], rank: int) -> np.ndarray[Any, Any]:
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array
