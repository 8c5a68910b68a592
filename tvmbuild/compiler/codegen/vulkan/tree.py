"""Walks over TensorIR trees, because TVM's Python interface has no fast functor for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tvm import ir, tirx

from tvmbuild.compiler.codegen.vulkan.values import BOOL, DType

_DTYPE = re.compile(r"(float|int|uint)(\d+)(?:x(\d+))?$")
_BITS = {"float": (16, 32, 64), "int": (8, 16, 32, 64), "uint": (8, 16, 32, 64)}
_SKIPPED = frozenset({"span", "ty", "op", "attr_key", "annotations", "thread_binding", "ty_args", "attrs", "node"})
_INNER = {
    tirx.SeqStmt: ("seq",),
    tirx.AttrStmt: ("body",),
    tirx.For: ("body",),
    tirx.While: ("body",),
    tirx.IfThenElse: ("then_case", "else_case"),
}

BINARY = (
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.Min, tirx.Max),
    *(tirx.LShift, tirx.RShift, tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor),
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE),
)
"""The types of nodes with two operands, `a` and `b`, that are both computed."""


def read_dtype(text: str) -> tuple[DType, int]:
    """Return the scalar type and the number of lanes of a type's name, for example `float32x4`.

    Raises NotImplementedError for unknown types.
    """
    if text.startswith("bool"):
        return BOOL, int(text[5:] or 1)
    found = _DTYPE.match(text)
    if found is None or int(found[2]) not in _BITS[found[1]]:
        raise NotImplementedError(f"values of type {text}")
    return DType(found[1], int(found[2])), int(found[3] or 1)


def count_scalars(kind: Any) -> int:
    """Return the number of scalars in a buffer of constant shape; ``kind`` is its type."""
    return read_dtype(str(kind.dtype))[1] * math.prod(int(extent) for extent in kind.shape)


def dtype_of(expression: Any) -> tuple[DType, int]:
    """Return an expression's scalar type and its number of lanes."""
    return _dtype_of(str(expression.ty.dtype))


_dtype_of = cache(read_dtype)


@cache
def _fields(kind: type[object]) -> tuple[str, ...]:
    info = getattr(kind, "__tvm_ffi_type_info__", None)
    names: list[str] = []
    while info is not None:
        names[:0] = [field.name for field in info.fields if field.name not in _SKIPPED]
        info = getattr(info, "parent_type_info", None)
    return tuple(names)


def walk(node: Any) -> Iterator[Any]:
    """Yield the node and all statements and expressions below it."""
    if isinstance(node, ir.Array):
        for each in node:
            yield from walk(each)
    elif isinstance(node, ir.Expr | tirx.Stmt) and not isinstance(node, ir.Op):
        yield node
        for name in _fields(node.__class__):
            yield from walk(getattr(node, name))


def walk_statements(node: Any) -> Iterator[Any]:
    """Yield the statement and all statements below it, but no expressions."""
    yield node
    for name in _INNER.get(type(node), ()):
        inner = getattr(node, name)
        for each in inner if isinstance(inner, ir.Array) else (inner,):
            if each is not None:
                yield from walk_statements(each)


def defined_in(statement: Any) -> set[int]:
    """Return the addresses of the variables that a statement defines."""
    found = set()
    for node in walk(statement):
        if isinstance(node, tirx.For):
            found.add(hash(node.loop_var))
        elif isinstance(node, tirx.Bind | tirx.Let):
            found.add(hash(node.var))
    return found
