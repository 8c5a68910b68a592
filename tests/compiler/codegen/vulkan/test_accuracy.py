"""The errors of single-precision functions against NumPy's double precision, in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.script.ir_builder import tirx as script
from vulkan_kernels import build, run, write_kernel

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
THREADS = 64
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.17549435e-38, 3.4e38)
TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Function:
    """A function, its reference, the ranges of its arguments, and the allowed error in units."""

    make: Callable[..., Any]
    exact: Callable[..., Any]
    ranges: tuple[tuple[float, float], ...]
    units: float
    arguments: int = 1
    floor: float = TINY
    """The smallest number whose unit counts; smaller results are measured in the same unit."""
    spread: float = 0.0
    """The units that are allowed in addition for each power of two in the result."""
    defined: Callable[..., Any] = lambda *_: True
    """The predicate of the arguments to which the bound applies."""


def _in_turns(x: np.ndarray) -> np.ndarray:
    return np.asarray((np.abs(x) <= 8192) | ~np.isfinite(x))


def _few_times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(~(np.abs(x / y) >= 2.0**22) | ~np.isfinite(x) | (y == 0))


def _call(name: str) -> Callable[..., Any]:
    return lambda *values: tirx.call_pure_extern("float32", name, *values)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _round(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


ALL = ((-3.4e38, 3.4e38), (-1e3, 1e3), (-1.0, 1.0), (-1e-3, 1e-3))
TURN = ((-8000.0, 8000.0), (-7.0, 7.0), (-1e-3, 1e-3))
UNIT = ((-1.0, 1.0), (-1e-3, 1e-3), (0.9, 1.0))
POSITIVE = ((0.0, 3.4e38), (0.0, 1e3), (0.0, 2.0), (0.99, 1.01), (0.0, 1e-37))
FUNCTIONS = {
    "exp": Function(tirx.exp, np.exp, ((-110.0, 95.0), (-1.0, 1.0)), 1),
    "exp2": Function(tirx.exp2, np.exp2, ((-140.0, 140.0), (-1.0, 1.0)), 1),
    "exp10": Function(tirx.exp10, lambda x: np.power(10.0, x), ((-40.0, 40.0), (-1.0, 1.0)), 2),
    "expm1": Function(_call("expm1f"), np.expm1, ((-110.0, 95.0), *UNIT), 3),
    "log": Function(tirx.log, np.log, POSITIVE, 1),
    "log2": Function(tirx.log2, np.log2, POSITIVE, 2),
    "log10": Function(tirx.log10, np.log10, POSITIVE, 2),
    "log1p": Function(tirx.log1p, np.log1p, ((-1.0, 3.4e38), (-1.0, 1.0), (-1e-3, 1e-3)), 2),
    "tanh": Function(tirx.tanh, np.tanh, ALL, 4),
    "erf": Function(tirx.erf, _erf, ALL, 4),
    "sigmoid": Function(tirx.sigmoid, _sigmoid, ((-80.0, 95.0), (-1.0, 1.0)), 3),
    "sin": Function(tirx.sin, np.sin, TURN, 1, floor=1.0, defined=_in_turns),
    "cos": Function(tirx.cos, np.cos, TURN, 1, floor=1.0, defined=_in_turns),
    "tan": Function(tirx.tan, np.tan, ((-7.0, 7.0), (-1e-3, 1e-3)), 4, defined=_in_turns),
    "asin": Function(tirx.asin, np.arcsin, UNIT, 3),
    "acos": Function(tirx.acos, np.arccos, UNIT, 2),
    "atan": Function(tirx.atan, np.arctan, ALL, 4),
    "sinh": Function(tirx.sinh, np.sinh, ((-95.0, 95.0), *UNIT), 4),
    "cosh": Function(tirx.cosh, np.cosh, ((-95.0, 95.0), *UNIT), 3),
    "asinh": Function(tirx.asinh, np.arcsinh, ALL, 3),
    "acosh": Function(tirx.acosh, np.arccosh, ((1.0, 3.4e38), (1.0, 1e3), (1.0, 1.01)), 3),
    "atanh": Function(tirx.atanh, np.arctanh, UNIT, 3),
    "round": Function(tirx.round, np.round, ALL, 0),
    "roundf": Function(_call("roundf"), _round, ALL, 0),
    "sqrt": Function(tirx.sqrt, np.sqrt, POSITIVE, 1),
    "rsqrt": Function(tirx.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE, 3),
    "pow": Function(tirx.pow, np.power, ((-30.0, 30.0), (-2.0, 2.0), (0.0, 1e5)), 2, arguments=2, spread=1.5),
    "fmod": Function(tirx.fmod, np.fmod, ((-1e3, 1e3), (-2.0, 2.0), (-1e6, 1e6)), 0, arguments=2, defined=_few_times),
    "atan2": Function(tirx.atan2, np.arctan2, ALL, 4, arguments=2),
}
EACH = 2048


def draw_numbers(function: Function, which: int) -> np.ndarray:
    random = np.random.RandomState(which)
    parts = [random.uniform(low, high, EACH) for low, high in function.ranges]
    special = np.repeat(SPECIAL, len(SPECIAL)) if which else np.tile(SPECIAL, len(SPECIAL))
    numbers = np.concatenate([special, *parts]).astype(np.float32)
    return np.pad(numbers, (0, -len(numbers) % THREADS), constant_values=1.0)


def units_off(got: np.ndarray, want: np.ndarray, floor: float) -> np.ndarray:
    """Return the errors in units of the exact value, of at least ``floor``; inf where only one is a number."""
    exact = want.astype(np.float64)
    unit = np.spacing(np.maximum(np.abs(exact), floor).clip(TINY, 3.4e38).astype(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = exact.astype(np.float32)
        off = np.abs(got - exact) / unit
        off[np.isinf(rounded)] = np.where(np.isinf(got) & (np.sign(got) == np.sign(exact)), 0, np.inf)[
            np.isinf(rounded)
        ]
    off[np.isnan(exact) & np.isnan(got)] = 0
    small = np.abs(exact) < TINY
    off[small & (np.abs(got) <= TINY)] = 0  # a denormal result may be 0
    return np.nan_to_num(off, nan=np.inf)


def compute(function: Function) -> tuple[list[np.ndarray], np.ndarray]:
    inputs = [draw_numbers(function, which) for which in range(function.arguments)]
    size = inputs[0].shape

    def body(*given: Any) -> None:
        *arrays, output, block, thread = given
        index = block * THREADS + thread
        script.buffer_store(output, function.make(*(each[index] for each in arrays)), [index])

    threads = [("blockIdx.x", size[0] // THREADS), ("threadIdx.x", THREADS)]
    built = build(write_kernel([(size, "float32")] * (len(inputs) + 1), threads, body))
    return inputs, run(built, *inputs, np.zeros(size, np.float32))[-1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    function = FUNCTIONS[name]
    inputs, got = compute(function)
    with np.errstate(all="ignore"):
        want = function.exact(*(each.astype(np.float64) for each in inputs))
        off = units_off(got, want, function.floor)
        off[~np.broadcast_to(function.defined(*inputs), off.shape)] = 0
        off -= function.spread * np.nan_to_num(np.abs(np.log2(np.abs(want))), posinf=0)
    worst = int(np.argmax(off))
    told = f"{name}{tuple(each[worst] for each in inputs)} is {got[worst]}, not {want[worst]}: {off[worst]:.2f} units"
    assert off[worst] <= function.units, told
