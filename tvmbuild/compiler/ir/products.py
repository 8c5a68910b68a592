"""The Relax operators that add up products: matrix products and convolutions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

PRODUCTS: dict[str, Callable[..., relax.Expr]] = {
    "relax.matmul": relax.op.matmul,
    "relax.nn.conv1d": relax.op.nn.conv1d,
    "relax.nn.conv1d_transpose": relax.op.nn.conv1d_transpose,
    "relax.nn.conv2d": relax.op.nn.conv2d,
    "relax.nn.conv2d_transpose": relax.op.nn.conv2d_transpose,
    "relax.nn.conv3d": relax.op.nn.conv3d,
    "relax.nn.conv3d_transpose": relax.op.nn.conv3d_transpose,
}
"""An operator's name → the function that makes a call of it."""


def is_product(expr: relax.Expr) -> bool:
    """Return whether the expression calls one of the operators."""
    return isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name in PRODUCTS


def list_attributes(call: relax.Call) -> dict[str, Any]:
    """Return the attributes of a product as keyword arguments of its function in `PRODUCTS`."""
    names = tuple(inspect.signature(PRODUCTS[call.op.name]).parameters)[2:]
    return {name: getattr(call.attrs, name) for name in names}
