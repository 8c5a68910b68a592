"""Matrix products of bytes with zero points: a product of the bytes as they are, corrected by row and column sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax

from tvmbuild.compiler.ir.expressions import shift, static_shape

Emit = Callable[[relax.Expr], relax.Expr]
MAX_DEPTH = (1 << 31) // (4 * 255 * 128) - 1
"""The largest number of products in a sum that fits in int32 together with its zero-point corrections."""
_UNSIGNED = 128


@dataclass(frozen=True)
class Bytes:
    """A tensor of the numbers ``value`` - ``zero``: uint8 or int8 values and their zero point.

    A zero point that is known only at run time is an int32 expression.
    """

    value: relax.Expr
    zero: int | relax.Expr

    @property
    def has_zero(self) -> bool:
        """Return whether a zero point has to be subtracted."""
        return not isinstance(self.zero, int) or self.zero != 0


def suits(left: relax.Expr, right: relax.Expr) -> bool:
    """Return whether both are matrices or stacks of matrices of known shapes that can be multiplied in int32.

    A row of ``left`` must have at most `MAX_DEPTH` numbers.
    """
    before, after = static_shape(left), static_shape(right)
    if before is None or after is None or min(len(before), len(after)) < 2:
        return False
    return 0 < before[-1] <= MAX_DEPTH


def are_paired(left: relax.Expr, right: relax.Expr) -> bool:
    """Return whether all matrices of ``left`` are multiplied by one matrix ``right``, or each by its own matrix.

    Return False if a shape is unknown.
    """
    before, after = static_shape(left) or (), static_shape(right) or ()
    return len(before) > 1 and (len(after) == 2 or (len(after) > 2 and before[:-2] == after[:-2]))


def multiply_matrices(emit: Emit, left: Bytes, right: Bytes) -> relax.Expr:
    """Return the matrix product in int32; the right operand is converted to int8, which dot instructions need."""
    right = sign(emit, right)
    total = emit(relax.op.matmul(left.value, right.value, out_dtype="int32"))
    if right.has_zero:
        rows = add_up(emit, left.value, -1)
        if left.has_zero:
            depth = (static_shape(left.value) or ())[-1]
            whole = emit(relax.op.multiply(_widen(left.zero), relax.const(depth, "int32")))
            rows = emit(relax.op.subtract(rows, whole))
        total = emit(relax.op.subtract(total, emit(relax.op.multiply(rows, _widen(right.zero)))))
    if left.has_zero:
        columns = add_up(emit, right.value, -2)
        total = emit(relax.op.subtract(total, emit(relax.op.multiply(columns, _widen(left.zero)))))
    return total


def sign(emit: Emit, matrix: Bytes) -> Bytes:
    """Return the same numbers with int8 values: uint8 values and their zero point are both lowered by 128."""
    if str(matrix.value.ty.dtype) == "int8":
        return matrix
    zero = matrix.zero - _UNSIGNED if isinstance(matrix.zero, int) else _less(emit, matrix.zero)
    return Bytes(shift(emit, matrix.value, -_UNSIGNED, "int8"), zero)


def add_up(emit: Emit, matrix: relax.Expr, axis: int) -> relax.Expr:
    """Return the int32 sums of ``matrix`` along ``axis``, which remains with length 1."""
    return emit(relax.op.sum(emit(relax.op.astype(matrix, "int32")), axis=axis, keepdims=True))


def _less(emit: Emit, zero: relax.Expr) -> relax.Expr:
    return emit(relax.op.subtract(zero, _widen(_UNSIGNED)))


def _widen(zero: int | relax.Expr) -> relax.Expr:
    return relax.const(zero, "int32") if isinstance(zero, int) else zero
