"""Transposes moved towards the outputs, past operators that can be computed before them, until transposes cancel.

ConvertLayout cannot convert a reshape. Around the reshapes of a channel shuffle or a detector's head, it transposes the
data to NCHW and back to NHWC, and the operators between these transposes stay in NCHW.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call, operator_name
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.op_sets import ELEMENTWISE, MOVES
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_main
from tvmbuild.compiler.passes.convert_each_layout import POOLS, TO_NCHW
from tvmbuild.compiler.remarks import missed


def sink_transposes(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Move each ``permute_dims`` of ``main`` after operators that can be computed before it.

    These are elementwise operators, concat, split, reshape, pad, pooling and resize2d. Quantisations count as
    elementwise if they have one scale. A maximum or minimum of all elements needs no transpose.
    """
    return rewrite_main(mod, _SinkTransposes(mod), TIDY)


@mutator
class _SinkTransposes(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not isinstance(call.op, tvm.ir.Op):
            return call
        rules = {
            "concat": self._concat,
            "split": self._split,
            "reshape": self._reshape,
            "permute_dims": self._permute,
            "nn.pad": self._pad,
            "quantize": self._quantize,
            **dict.fromkeys(("max", "min", "sum"), self._reduce),
            **{name.removeprefix("relax."): self._of_pictures for name in _IN_NHWC},
        }
        rule = rules.get(operator_name(call))
        if rule is not None:
            return rule(call)
        if call.op.name in ELEMENTWISE:
            return self._move_behind(call, call.args, lambda sources, _: relax.Call(call.op, sources, call.attrs))
        return call

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        item = super().visit_tuple_getitem_(item)
        made = resolve(self.lookup_binding, item.tuple_value)
        return made.fields[item.index] if isinstance(made, relax.Tuple) else item

    def _transposed(self, expr: relax.Expr) -> tuple[relax.Expr, tuple[int, ...]] | None:
        """Return (source, axes) of a transpose, or None for other expressions."""
        value = resolve(self.lookup_binding, expr)
        if not is_call(value, "relax.permute_dims"):
            return None
        axes = tuple(int(axis) for axis in value.attrs.axes or range(int(value.ty.ndim))[::-1])
        return value.args[0], axes

    def _move_behind(
        self,
        call: relax.Call,
        arguments: Sequence[relax.Expr],
        make: Callable[[list[relax.Expr], tuple[int, ...]], relax.Expr],
    ) -> relax.Expr:
        """Compute the call on the sources of its transposed arguments, and transpose the result; else return the call.

        ``make(sources, axes)`` computes the result before the transpose. All transposes must have the same axes; other
        arguments must be constants or scalars.
        """
        found = [self._transposed(argument) for argument in arguments]
        orders, name = {each[1] for each in found if each is not None}, operator_name(call)
        if len(orders) > 1:
            missed(f"the operands of {name} are transposed in {len(orders)} ways")
        if len(orders) != 1:
            return call
        (axes,) = orders
        sources = [
            self._untransposed(argument, axes) if each is None else each[0]
            for argument, each in zip(arguments, found, strict=True)
        ]
        kept = [source for source in sources if source is not None]
        if len(kept) < len(sources):
            if any(each is not None and self._is_computed(each[0]) for each in found):
                missed(f"an operand of {name} is neither transposed nor constant")
            return call
        return relax.op.permute_dims(self.builder_.emit(make(kept, axes)), list(axes))

    def _is_computed(self, expr: relax.Expr) -> bool:
        """Return whether the expression is not just a moved constant, whose transpose would be folded."""
        value = resolve(self.lookup_binding, expr)
        while isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in MOVES:
            value = resolve(self.lookup_binding, value.args[0])
        return not isinstance(value, tvm.ir.GenericConst)

    def _untransposed(self, expr: relax.Expr, axes: tuple[int, ...]) -> relax.Expr | None:
        """Return the constant expression whose transpose is ``expr``, or None; a scalar is returned as it is."""
        if static_shape(expr) == ():
            return expr
        value = resolve(self.lookup_binding, expr)
        if isinstance(value, tvm.ir.GenericConst):
            return _turn_constant(value, axes)
        if not any(is_call(value, name) for name in ELEMENTWISE):
            return None
        made = [self._untransposed(argument, axes) for argument in value.args]
        known = [each for each in made if each is not None]
        return self.builder_.emit(relax.Call(value.op, known, value.attrs)) if len(known) == len(made) else None

    def _concat(self, call: relax.Call) -> relax.Expr:
        parts = resolve(self.lookup_binding, call.args[0])
        if not isinstance(parts, relax.Tuple) or call.attrs.axis is None:
            return call
        axis = int(call.attrs.axis) % int(call.ty.ndim)
        return self._move_behind(call, parts.fields, lambda sources, axes: relax.op.concat(sources, axes[axis]))

    def _split(self, call: relax.Call) -> relax.Expr:
        found = self._transposed(call.args[0])
        if found is None:
            return call
        source, axes = found
        axis = axes[int(call.attrs.axis) % len(axes)]
        parts = self.builder_.emit(relax.op.split(source, call.attrs.indices_or_sections, axis))
        items = [self.builder_.emit(relax.TupleGetItem(parts, index)) for index in range(len(parts.ty.fields))]
        return relax.Tuple([self.builder_.emit(relax.op.permute_dims(item, list(axes))) for item in items])

    def _pad(self, call: relax.Call) -> relax.Expr:
        def make(sources: list[relax.Expr], axes: tuple[int, ...]) -> relax.Expr:
            width = [int(each) for each in call.attrs.pad_width]
            moved = [side for axis in range(len(axes)) for side in width[2 * axes.index(axis) :][:2]]
            return relax.op.nn.pad(sources[0], moved, call.attrs.pad_mode, call.attrs.pad_value)

        return self._move_behind(call, call.args, make)

    def _quantize(self, call: relax.Call) -> relax.Expr:
        data, *steps = call.args
        if any(static_shape(each) != () for each in steps):
            if self._transposed(data) is not None:
                missed("quantize has steps of its own for each channel")
            return call

        def make(sources: list[relax.Expr], _: tuple[int, ...]) -> relax.Expr:
            return relax.op.quantize(sources[0], *steps, axis=0, out_dtype=str(call.ty.dtype))

        return self._move_behind(call, [data], make)

    def _reduce(self, call: relax.Call) -> relax.Expr:
        """Reduce the source of a transpose along the matching axis.

        A maximum or minimum of all elements is taken of the source itself, as it does not depend on their order.
        """
        found = self._transposed(call.args[0])
        own = call.attrs.axis
        if found is None:
            return call
        if own is None:
            is_extreme = call.op.name != "relax.sum" and not call.attrs.keepdims
            if not is_extreme:
                missed(f"{operator_name(call)} of all elements adds them up, or keeps their axes")
            return relax.Call(call.op, [found[0]], call.attrs) if is_extreme else call
        if len(own) > 1 or not call.attrs.keepdims:
            missed(f"{operator_name(call)} is over several axes, or drops its axis")
            return call
        reduce = getattr(relax.op, operator_name(call))
        axis = int(own[0]) % len(found[1])
        return self._move_behind(call, call.args, lambda sources, axes: reduce(sources[0], axes[axis], keepdims=True))

    def _of_pictures(self, call: relax.Call) -> relax.Expr:
        found = self._transposed(call.args[0])
        if found is None:
            return call
        layouts = {call.attrs.layout, getattr(call.attrs, "out_layout", "NCHW")}
        if list(found[1]) != TO_NCHW or layouts != {"NCHW"}:
            missed(f"{operator_name(call)} is not of NCHW that was NHWC")
            return call
        return relax.op.permute_dims(self.builder_.emit(_IN_NHWC[call.op.name](call, found[0])), TO_NCHW)

    def _permute(self, call: relax.Call) -> relax.Expr:
        found = self._transposed(call.args[0])
        own = self._transposed(call)
        if found is None or own is None:
            return call
        source, first = found
        axes = [first[axis] for axis in own[1]]
        return source if axes == sorted(axes) else relax.op.permute_dims(source, axes)

    def _reshape(self, call: relax.Call) -> relax.Expr:
        found = self._transposed(call.args[0])
        shapes = _shape_of_something(call.args[0]), _shape_of_something(call)
        if found is None or shapes[0] is None or shapes[1] is None:
            return call
        source, axes = found
        groups = _match_extents(shapes[0], shapes[1])
        if groups is None:
            missed(f"reshape of {len(shapes[0])} axes to {len(shapes[1])} keeps no groups of them together")
            return call
        # Groups of axes stay together, in the order in which the source has the last axis of each.
        order = sorted(range(len(groups)), key=lambda index: axes[groups[index][0][-1]])
        inner = [axes[old] for index in order for old in groups[index][0]]
        if inner != sorted(inner):
            source = self.builder_.emit(relax.op.permute_dims(source, inner))
        new = [each for index in order for each in groups[index][1]]
        reshaped = self.builder_.emit(relax.op.reshape(source, [shapes[1][each] for each in new]))
        back = [new.index(each) for each in range(len(new))]
        return reshaped if back == sorted(back) else relax.op.permute_dims(reshaped, back)


def _resize(call: relax.Call, data: relax.Expr) -> relax.Expr:
    attrs = call.attrs
    return relax.op.image.resize2d(
        data,
        call.args[1],
        roi=list(attrs.roi),
        layout="NHWC",
        method=attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        rounding_method=attrs.rounding_method,
        cubic_alpha=attrs.cubic_alpha,
        cubic_exclude=attrs.cubic_exclude,
        extrapolation_value=attrs.extrapolation_value,
        out_dtype=str(call.ty.dtype),
    )


_IN_NHWC = {**POOLS, "relax.image.resize2d": _resize}
"""An operator's name → a function of its NCHW call and of NHWC data, which computes the operator in NHWC."""


def _turn_constant(expr: tvm.ir.GenericConst, axes: tuple[int, ...]) -> relax.Expr | None:
    """Return the constant whose transpose is ``expr``, or None if ``expr`` has more axes than the transpose."""
    value = expr.value.numpy()
    if value.ndim > len(axes):
        return None
    full = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
    return constant(np.ascontiguousarray(full.transpose(np.argsort(axes))))


def _match_extents(old: Sequence[int], new: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """Match groups of neighbouring axes of the old shape to groups of the new shape with equally many elements.

    Return (old axes, new axes) of each group, as small as possible and never empty, or None if none match.
    """
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        ends = i + 1, j + 1
        while (left := math.prod(old[i : ends[0]])) != (right := math.prod(new[j : ends[1]])):
            ends = (ends[0] + 1, ends[1]) if left < right else (ends[0], ends[1] + 1)
            if ends[0] > len(old) or ends[1] > len(new):
                return None
        groups.append((tuple(range(i, ends[0])), tuple(range(j, ends[1]))))
        i, j = ends
    if not groups:
        return None
    (last_old, last_new) = groups.pop()
    groups.append((last_old + tuple(range(i, len(old))), last_new + tuple(range(j, len(new)))))
    return groups


def _shape_of_something(expr: relax.Expr) -> tuple[int, ...] | None:
    extents = static_shape(expr)
    return extents if extents is not None and all(extents) else None
