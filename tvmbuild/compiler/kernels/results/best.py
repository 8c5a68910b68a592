"""The steps for neighbouring candidates or pixels at once: the class with the largest score, sigmoids, stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int32, int64
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store, take


def find_best(read: Callable[[Any], Any], classes: int, lanes: int) -> tuple[Any, Any]:
    """Write the search for the largest score, and return it and its class, int32; of equal scores the first counts.

    ``read`` returns the scores of a class in ``lanes`` places.
    """
    best, place = local(lanes), local(lanes, "int32")
    store(best, read(int64(0)), int64(0), lanes)
    store(place, spread(int32(0), lanes), int64(0), lanes)
    if classes > 1:
        with T.serial(int64(classes - 1)) as index:
            score = T.Bind(read(index + 1))
            last = T.Bind(load(best, int64(0), lanes))
            better = score > last  # not bound: TVM cannot keep a vector of booleans
            kind = spread((index + 1).astype("int32"), lanes)
            store(place, tirx.Select(better, kind, take(place, 0, lanes)), int64(0), lanes)
            store(best, tirx.Select(better, score, last), int64(0), lanes)
    return T.Bind(load(best, int64(0), lanes)), take(place, 0, lanes)


def squash(score: Any, lanes: int) -> Any:
    """Return the sigmoid of scores."""
    return number(1, lanes) / (number(1, lanes) + tirx.exp(number(0, lanes) - score))


def keep(value: Any, lanes: int) -> Any:
    """Write a float32 value into a register and return it.

    TVM repeats a bound expression at each use, and its LLVM code generator cannot take our exponential twice.
    """
    register = local(lanes)
    store(register, value, int64(0), lanes)
    return load(register, int64(0), lanes)


def scatter(buffer: Any, value: Any, at: Any, step: int, lanes: int) -> None:
    """Store the elements of a vector in every ``step`` th place."""
    T.buffer_store(buffer, value, [at if lanes == 1 else tirx.Ramp(at, int64(step), lanes)])
