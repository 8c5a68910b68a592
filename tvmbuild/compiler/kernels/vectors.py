"""Helpers that write TensorIR of loads, stores and vectors."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int64, wide


def vector_type(dtype: str, lanes: int = 1) -> str:
    """Return the name of the type of ``lanes`` elements: `float32`, or `float32x16` for a vector."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def number(value: float, lanes: int = 1) -> Any:
    """Return a float32 constant, or a vector with the constant in all lanes."""
    return spread(float32(value), lanes)


def spread(value: Any, lanes: int) -> Any:
    """Return a vector with the value in all lanes."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


def load(buffer: Any, at: Any, lanes: int = 1) -> Any:
    """Load ``lanes`` neighbouring elements from index ``at`` on, and convert them to float32."""
    value = take(buffer, at, lanes)
    return value if str(buffer.dtype) == "float32" else value.astype(vector_type("float32", lanes))


def take(buffer: Any, at: Any, lanes: int = 1) -> Any:
    """Load ``lanes`` neighbouring elements from index ``at`` on in the dtype of the buffer."""
    return buffer[at] if lanes == 1 else buffer.vload([at], vector_type(str(buffer.dtype), lanes))


def store(buffer: Any, value: Any, at: Any, lanes: int = 1) -> None:
    """Store ``lanes`` neighbouring elements from index ``at`` on, converted to the dtype of the buffer."""
    dtype = str(buffer.dtype)
    if dtype != "float32":
        value = value.astype(vector_type(dtype, lanes))
    T.buffer_store(buffer, value, [at if lanes == 1 else tirx.Ramp(at, int64(1), lanes)])


def cut(extent: int, lanes: int) -> list[tuple[int, int]]:
    """Return (begin, lanes) of the vectors that cover an extent: vectors of ``lanes``, then shorter powers of two."""
    pieces, begin = [], 0
    while begin < extent:
        while lanes > extent - begin:
            lanes //= 2
        pieces.append((begin, lanes))
        begin += lanes
    return pieces


def squash(score: Any, cap: float | None, lanes: int = 1) -> Any:
    """Return cap · tanh(score), or the score itself if ``cap`` is None."""
    return score if cap is None else number(cap, lanes) * tirx.tanh(score)


def local(count: int, dtype: str = "float32") -> Any:
    """Declare and return a private buffer of the thread with ``count`` elements."""
    return T.alloc_buffer(wide(count), dtype, scope="local", layout=None)
