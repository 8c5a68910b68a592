"""The comparison of computed outputs with the expected ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tvmbuild.base.specs import Tolerance

Arrays = Mapping[str, np.ndarray]

ROUNDINGS = 8.0
"""The largest error of an element, in multiples of its movement under rounding errors."""
_ALIKE = 0.5
"""The share of the rows that must be right in an output whose length rounding changes."""
_JUDGED = 0.1
"""The largest error that is allowed for rounding, over the output's largest number, at which an element is judged."""


@dataclass(frozen=True)
class Comparison:
    """The largest errors over all outputs; ``problem`` describes the first fault, None if all is within tolerance."""

    max_abs_error: float
    max_rel_error: float
    """The largest relative error of elements whose |want| exceeds the absolute tolerance; smaller ones are left out."""
    problem: str | None
    comparable: bool = True
    """True if names, types and shapes are the same, so that numbers were compared."""
    unjudged: str | None = None
    """The outputs with elements that rounding moves so far that their numbers prove nothing; None if none has."""

    def list_warnings(self) -> tuple[str, ...]:
        """Return a warning for the report if elements are not judged."""
        if self.unjudged is None:
            return ()
        return (f"not compared, because rounding alone changes them by a tenth of the largest value: {self.unjudged}",)


def compare(got: Arrays, want: Arrays, tolerance: Tolerance, rounding: Arrays | None = None) -> Comparison:
    """Compare by name: same names, dtypes, shapes, and |got - want| <= atol + rtol * |want|.

    A share of the output's largest magnitude may be added to atol. NaN and infinity match themselves. Integers and
    booleans must be equal, unless the tolerance is wider than the default one. ``rounding``, in the outputs' shapes,
    has the movement of each element under rounding errors; `ROUNDINGS` times as much is allowed. Where
    rounding changes an output's length, its rows are compared as a set.
    """
    rounding = rounding or {}
    problems: list[str] = []
    unjudged: list[str] = []
    largest_abs = largest_rel = 0.0
    comparable = set(got) == set(want)
    if not comparable:
        problems.append(f"the outputs are {', '.join(got)} instead of {', '.join(want)}")
    for name in (n for n in want if n in got):
        if name in rounding and is_length_moved(rounding[name], want[name]) and _are_alike(got[name], want[name]):
            trouble, note = _compare_rows(name, got[name], want[name], tolerance)
            problems += trouble
            unjudged += note
            continue
        if got[name].shape != want[name].shape:
            problems.append(f"output {name} has the shape {list(got[name].shape)} instead of {list(want[name].shape)}")
            comparable = False
            continue
        if got[name].dtype != want[name].dtype:
            problems.append(f"output {name} has the dtype {got[name].dtype} instead of {want[name].dtype}")
            comparable = False
            continue
        if want[name].size == 0:
            continue
        limits, moved = find_limits(want[name], tolerance), rounding.get(name)
        if moved is not None:
            rounded = ROUNDINGS * moved.astype(np.float64)
            limits = replace(limits, allowed=np.maximum(limits.allowed, rounded))
            unjudged += _list_unjudged(name, want[name], rounded)
        absolute, relative, problem = _compare_one(name, widen(got[name]), widen(want[name]), limits)
        largest_abs = max(largest_abs, absolute)
        largest_rel = max(largest_rel, relative)
        if problem is not None:
            problems.append(problem)
    return Comparison(largest_abs, largest_rel, "; ".join(problems) or None, comparable, "; ".join(unjudged) or None)


def is_length_moved(moved: np.ndarray, want: np.ndarray) -> bool:
    """Return whether a movement under rounding errors says that the output's length changes."""
    return moved.ndim == 0 and want.ndim > 0


def _are_alike(got: np.ndarray, want: np.ndarray) -> bool:
    """Return whether two outputs differ in nothing but the number of rows."""
    return got.dtype == want.dtype and got.ndim == want.ndim and got.shape[1:] == want.shape[1:]


def _compare_rows(name: str, got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> tuple[list[str], list[str]]:
    """Return the faults, and what is not judged, of an output whose length rounding changes.

    Most rows of the shorter one must be among the rows of the longer one, in any order.
    """
    few, many = sorted((got, want), key=len)
    rows, others = (widen(each).reshape(len(each), -1) for each in (few, many))
    limits = find_limits(few, tolerance).allowed.reshape(len(few), -1)
    found = sum(
        bool((np.abs(others - row) <= allowed).all(axis=1).any()) for row, allowed in zip(rows, limits, strict=True)
    )
    if found < _ALIKE * max(len(few), _ALIKE * len(many)):
        return [f"output {name} has {len(got)} rows instead of {len(want)}, and {found} of them are right"], []
    left = len(many) - found
    return [], ([f"{left} of {len(many)} rows of {name}"] if left else [])


def find_error(got: Arrays, want: Arrays) -> float:
    """Return the largest difference over the largest magnitude, of all outputs by name.

    NaN counts as infinity, and so does an output of another size.
    """
    worst = 0.0
    for name, right in want.items():
        value = np.asarray(got[name], np.float64)
        if value.size != right.size:
            return math.inf
        value = value.reshape(right.shape)
        difference = float(np.abs(value - right)[value != right].max(initial=0.0))  # infinities are equal
        relative = difference / max(float(np.abs(right.astype(np.float64)).max(initial=0.0)), 1e-30)
        worst = max(worst, math.inf if math.isnan(relative) else relative)
    return worst


def widen(array: np.ndarray) -> np.ndarray:
    """Return the array in the precision in which errors are computed."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


@dataclass(frozen=True)
class Limits:
    """The errors that a tolerance allows for an output."""

    allowed: np.ndarray
    """The largest error of each element."""
    floor: float
    """The largest error of an element that is 0."""


def find_limits(want: np.ndarray, tolerance: Tolerance) -> Limits:
    """Return the limits of an output; integers and booleans have their own tolerance."""
    chosen = tolerance.of_integers() if want.dtype.kind in "iub" else tolerance
    magnitudes = np.abs(widen(want))
    floor = chosen.atol + (chosen.of_largest * _find_largest(want) if chosen.of_largest else 0.0)
    return Limits(floor + chosen.rtol * magnitudes, floor)


def _find_largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(widen(values)), where=np.isfinite(values), initial=0.0))


def _list_unjudged(name: str, want: np.ndarray, rounded: np.ndarray) -> list[str]:
    count = int(np.count_nonzero(rounded > _JUDGED * _find_largest(want)))
    return [f"{count} of {want.size} elements of {name}"] if count else []


def _compare_one(name: str, got: np.ndarray, want: np.ndarray, limits: Limits) -> tuple[float, float, str | None]:
    """Return the largest absolute error, the largest relative one of elements above the floor, and the first fault."""
    allowed, floor = limits.allowed, limits.floor
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want))
    finite = np.isfinite(error)
    wrong = ~same & ~(finite & np.isfinite(allowed) & (error <= allowed))
    relevant = finite & (np.abs(want) > floor) & np.isfinite(want)
    relative = np.where(relevant, error / np.where(relevant, np.abs(want), 1.0), 0.0)
    largest = (float(np.max(np.where(finite, error, 0.0))), float(np.max(relative)))
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return (*largest, None)
    excess = np.where(wrong, np.where(finite, error - np.where(np.isfinite(allowed), allowed, 0.0), np.inf), -np.inf)
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    index = ", ".join(str(int(i)) for i in worst)
    problem = (
        f"output {name} is wrong in {count} of {want.size} elements, most at [{index}]: got {got[worst]:.7g}, "
        f"want {want[worst]:.7g}"
    )
    if finite[worst]:
        problem += f", off by {error[worst]:.3g} where {allowed[worst]:.3g} is allowed"
    return (*largest, problem)
