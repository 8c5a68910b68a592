"""Integer NHWC convolutions and matrix products by dot instructions, with weights packed in the instruction's order.

The second matrix of a product of two activations is packed at run time, by a separate function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.byte_matrices import add_up, are_paired
from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import DefUse, resolve
from tvmbuild.compiler.ir.expressions import constant, shift, static_shape
from tvmbuild.compiler.ir.obstacles import list_nhwc_obstacles
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_main
from tvmbuild.compiler.kernels.int8.depthwise_dot import choose_window, pack_window, write_windows
from tvmbuild.compiler.kernels.int8.dot_kernels import (
    CONVOLUTION,
    PRODUCT,
    Padded,
    write_dense,
    write_depthwise,
    write_groups,
    write_packing,
    write_product,
)
from tvmbuild.compiler.machine.dot_instructions import DotInstruction, find_instruction
from tvmbuild.compiler.passes.convert_each_layout import TO_NHWC
from tvmbuild.compiler.passes.int8.accumulators import is_depthwise
from tvmbuild.compiler.passes.int8.quant_params import UNSIGNED
from tvmbuild.compiler.remarks import is_missed, missed

_BYTES = frozenset({"uint8", "int8"})


def lower_dot_products(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite NHWC convolutions with constant int8 weights and matrix products to the target's dot instruction."""
    instruction = find_instruction(target)
    if instruction is None:
        return mod
    return rewrite_main(mod, _LowerDotProducts(mod, instruction), DROP_UNUSED)


@mutator
class _LowerDotProducts(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, instruction: DotInstruction) -> None:
        super().__init__(mod)
        self._instruction = instruction
        self._uses = DefUse(mod["main"]).uses
        self._sums: dict[relax.GlobalVar, DotCall] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        is_used_once = bool(call.args) and self._uses[call.args[0]] == 1
        call = super().visit_call_(call)
        if is_used_once and (taken := self._take_over(call)) is not None:
            return taken
        if _is_product_of_integers(call) and str(call.args[0].ty.dtype) in _BYTES:
            return self._pack_product(call) if _is_constant(call.args[1]) else self._pack_matrices(call)
        if not is_call(call, "relax.nn.conv2d") or not _is_of_integers(call) or is_missed(list_nhwc_obstacles(call)):
            return call
        padded, groups = self._find_padding(call), int(call.attrs.groups)
        is_of_bytes = str(padded.source.ty.dtype) in _BYTES
        if is_depthwise(call.args[1].value.shape[::-1], groups):  # HWIO
            return self._pack_depthwise(call, padded)
        if is_of_bytes:
            return self._pack_groups(call, padded) if groups > 1 else self._pack_dense(call, padded)
        missed(f"its data are {padded.source.ty.dtype}, not bytes")
        return call

    def _pack_dense(self, call: relax.Call, padded: Padded) -> relax.Expr:
        weights = call.args[1].value.numpy()
        source, by = self._take_type(padded.source)
        padded = replace(padded, source=self._fill_groups(source), value=padded.value + by)
        instruction = self._fit(padded.source)
        packed = constant(pack_weights(weights, instruction))
        begin = undo(by, weights, packed)
        write: Write = partial(write_dense, call, padded, packed, instruction, *begin)
        return self._call(DotCall(CONVOLUTION, write, (padded.source, packed, *begin), count_filled(packed)), call.ty)

    def _pack_depthwise(self, call: relax.Call, padded: Padded) -> relax.Expr:
        weights = call.args[1].value.numpy()
        window = choose_window(call, padded, self._instruction)
        if window is not None:
            packed = constant(pack_window(weights, window))
            write: Write = partial(write_windows, call, padded, packed, window)
            return self._call(DotCall(CONVOLUTION, write, (padded.source, packed), weights.shape[3]), call.ty)
        if add_up_most(weights) >= EXACT:
            missed(f"its sums may be {add_up_most(weights)}, more than float32 has exactly")
            return call
        packed = constant(weights[:, :, 0, :].astype(self._instruction.depthwise))
        write = partial(write_depthwise, call, padded, packed)
        in_floats = add_up_most(weights) if self._instruction.depthwise == "float32" else None
        return self._call(DotCall(CONVOLUTION, write, (padded.source, packed), weights.shape[3], in_floats), call.ty)

    def _pack_groups(self, call: relax.Call, padded: Padded) -> relax.Expr:
        weights, groups = call.args[1].value.numpy(), int(call.attrs.groups)
        source, by = self._take_type(padded.source)
        instruction = self._instruction.fit(-(-weights.shape[2] // self._instruction.group))
        packed = np.stack([pack_weights(each, instruction) for each in np.split(weights, groups, axis=3)])
        read = packed.shape[4] * instruction.depth - weights.shape[2]  # channels that are read beyond the last group
        source = self._fill(source, max(read, 0))
        padded = replace(padded, source=source, value=padded.value + by)
        function = write_groups(call, padded, constant(packed), instruction)
        sums = relax.call_tir(self.builder_.add_func(function, CONVOLUTION), [source, constant(packed)], call.ty)
        if not by:
            return sums
        more = -by * weights.astype(np.int64).sum(axis=(0, 1, 2))
        return relax.op.add(self.builder_.emit(sums), constant(more.astype(np.int32)))

    def _call(self, sums: DotCall, type_: Any) -> relax.Expr:
        variable = self.builder_.add_func(sums.write(), sums.name)
        self._sums[variable] = sums
        return relax.call_tir(variable, sums.arguments, type_)

    def _take_over(self, call: relax.Call) -> relax.Expr | None:
        """Return the sums before the call with the call taken into their kernel, or None if this is impossible.

        The sums then start from a constant that the call adds, or stay in float32 if the call casts them to float32.
        """
        before = resolve(self.lookup_binding, call.args[0])
        sums = self._sums.get(before.args[0]) if is_call(before, "relax.call_tir") else None
        shape = static_shape(call)
        if sums is None or not shape or shape != static_shape(call.args[0]):
            return None
        if is_call(call, "relax.add"):
            taken = sums.begin_with(call.args[1], shape[-1])
        else:
            taken = sums.keep_floats() if is_call(call, "relax.astype") and str(call.ty.dtype) == "float32" else None
        return None if taken is None else self._call(taken, call.ty)

    def _find_padding(self, call: relax.Call) -> Padded:
        """Return the padding of the convolution or of the pad operator before it, also if the pad is in NCHW."""
        top, left, bottom, right = (int(each) for each in call.attrs.padding)
        own = Padded(call.args[0], 0, (top, left), (bottom, right))
        if any((top, left, bottom, right)):
            return own
        before = resolve(self.lookup_binding, call.args[0])
        turned = is_call(before, "relax.permute_dims") and [int(axis) for axis in before.attrs.axes or ()] == TO_NHWC
        pad = resolve(self.lookup_binding, before.args[0]) if turned else before
        if not is_call(pad, "relax.nn.pad") or pad.attrs.pad_mode != "constant":
            return own
        width = [int(each) for each in pad.attrs.pad_width]
        width = [width[2 * axis + side] for axis in (TO_NHWC if turned else range(4)) for side in (0, 1)]
        if any(width[:2]) or any(width[6:]):
            return own
        source = self.builder_.emit(relax.op.permute_dims(pad.args[0], TO_NHWC)) if turned else pad.args[0]
        return Padded(source, int(pad.attrs.pad_value), (width[2], width[4]), (width[3], width[5]))

    def _pack_product(self, call: relax.Call) -> relax.Expr:
        weights = call.args[1].value.numpy()
        data, by = self._take_type(call.args[0])
        data = self._fill_groups(data)
        instruction = self._fit(data)
        packed = constant(pack_weights(weights[None, None], instruction))
        begin = undo(by, weights, packed)
        write = partial(write_product, call, data, packed, instruction, *begin)
        return self._call(DotCall(PRODUCT, write, (data, packed, *begin), count_filled(packed)), call.ty)

    def _pack_matrices(self, call: relax.Call) -> relax.Expr:
        """Multiply by computed matrices, which are packed at run time.

        If the data were shifted to another type of bytes, subtract what the shift adds to the sums.
        """
        matrices = call.args[1]
        data, by = self._take_type(call.args[0])
        data = self._fill_groups(data)
        instruction = self._fit(data)
        function, shape = write_packing(matrices, instruction)
        packing = relax.call_tir(
            self.builder_.add_func(function, "pack_matrix"), [matrices], relax.TensorType(shape, "int8")
        )
        packed = self.builder_.emit(packing)
        write = partial(write_product, call, data, packed, instruction)
        sums = self._call(DotCall(PRODUCT, write, (data, packed), count_filled(packed)), call.ty)
        if not by:
            return sums
        columns = add_up(self.builder_.emit, matrices, -2)
        more = self.builder_.emit(relax.op.multiply(columns, relax.const(by, "int32")))
        return relax.op.subtract(self.builder_.emit(sums), more)

    def _take_type(self, data: relax.Expr) -> tuple[relax.Expr, int]:
        """Return the data as bytes of the type that the instruction takes, and the number that was added to each."""
        wanted = self._instruction.tensor
        if str(data.ty.dtype) == wanted:
            return data, 0
        by = -UNSIGNED if wanted == "int8" else UNSIGNED
        return shift(self.builder_.emit, data, by, wanted), by

    def _fill_groups(self, data: relax.Expr) -> relax.Expr:
        """Pad the channels to whole groups of the instruction; the padding is fused with the operator before it."""
        return self._fill(data, -int(data.ty.shape.values[-1]) % self._instruction.group)

    def _fill(self, data: relax.Expr, more: int) -> relax.Expr:
        """Append ``more`` channels of zeros to the tensor."""
        if not more:
            return data
        return self.builder_.emit(relax.op.nn.pad(data, [0] * (2 * data.ty.ndim - 1) + [more]))

    def _fit(self, data: relax.Expr) -> DotInstruction:
        return self._instruction.fit(int(data.ty.shape.values[-1]) // self._instruction.group)


def _is_product_of_integers(call: relax.Call) -> bool:
    if not is_call(call, "relax.matmul") or not _is_of_integers(call):
        return False
    return are_paired(*call.args) or bool(missed("it is of vectors, or spreads one operand's matrices"))


def _is_constant(expr: relax.Expr) -> bool:
    return isinstance(expr, tvm.ir.GenericConst) and len(static_shape(expr) or ()) == 2


def _is_of_integers(call: relax.Call) -> bool:
    data, weights, result = (str(each.ty.dtype) for each in (*call.args, call))
    return data in {"uint8", "int8", "int16"} and (weights, result) == ("int8", "int32")


# Weights in the order of a dot instruction, and the functions that add up their products.

EXACT = 1 << 24
"""The limit below which float32 holds all integers."""
Write = Callable[..., tirx.PrimFunc]
"""A function that writes the kernel; it takes the sums' initial values ``begin`` and the dtype ``result``."""


@dataclass(frozen=True)
class DotCall:
    """A call of an int8 dot-product kernel, and how to write it again with other initial values or result type."""

    name: str
    write: Write
    arguments: tuple[relax.Expr, ...]
    filled: int
    """The number of outputs, including those that fill up vectors."""
    in_floats: int | None = None
    """The largest possible sum, if the sums are computed in float32."""

    def begin_with(self, addend: relax.Expr, outputs: int) -> DotCall | None:
        """Return the call with sums that start from ``addend``, or None if this is impossible.

        The addend must be an int32 constant with one number for each of the ``outputs``.
        """
        values = addend.value.numpy() if isinstance(addend, tvm.ir.GenericConst) else None
        if values is None or values.dtype != np.int32 or values.shape[-1:] != (outputs,) or values.size != outputs:
            return None
        largest = int(np.abs(values.astype(np.int64)).max(initial=0)) + (self.in_floats or 0)
        if len(self.arguments) > 2 or (self.in_floats is not None and largest >= EXACT):
            return None
        filled = np.pad(values.reshape(-1), (0, self.filled - values.size))
        begin = constant(filled if self.in_floats is None else filled.astype(np.float32))
        in_floats = None if self.in_floats is None else largest
        write, arguments = partial(self.write, begin=begin), (*self.arguments, begin)
        return replace(self, write=write, arguments=arguments, in_floats=in_floats)

    def keep_floats(self) -> DotCall | None:
        """Return the call with sums that stay in float32, or None if they are computed as integers."""
        return None if self.in_floats is None else replace(self, write=partial(self.write, result="float32"))


def add_up_most(weights: np.ndarray[Any, Any]) -> int:
    """Return the largest absolute value that an output's sum of products with bytes can have."""
    return int(np.abs(weights.astype(np.int64)).sum(axis=(0, 1, 2)).max(initial=0)) * 255


def undo(by: int, weights: np.ndarray[Any, Any], packed: relax.Expr) -> tuple[relax.Expr, ...]:
    """Return the sums' initial values that cancel an offset of ``by`` on the data; empty if ``by`` is 0."""
    if not by:
        return ()
    begin = -by * weights.astype(np.int64).sum(axis=tuple(range(weights.ndim - 1)))
    return (constant(np.pad(begin.astype(np.int32), (0, count_filled(packed) - begin.size))),)


def count_filled(packed: relax.Expr) -> int:
    """Return the number of outputs of packed weights, including those that fill up vectors."""
    vectors, *_, lanes, _ = (int(each) for each in packed.ty.shape.values[-7:])
    return vectors * lanes


def pack_weights(weights: np.ndarray[Any, Any], instruction: DotInstruction) -> np.ndarray[Any, Any]:
    """Pack HWIO weights in the order of the dot instruction, with zeros as padding.

    The axes are vectors of outputs x rows x columns x uses of the instruction x steps x outputs x inputs.
    """
    rows, columns, inputs, outputs = weights.shape
    lanes, group = instruction.lanes, instruction.group
    filled = np.pad(weights, ((0, 0), (0, 0), (0, -inputs % group), (0, -outputs % lanes)))
    apart = filled.reshape(rows, columns, -1, instruction.steps, group, filled.shape[3] // lanes, lanes)
    return np.ascontiguousarray(apart.transpose(5, 0, 1, 2, 3, 6, 4))
