"""The matrix of models and targets, with a summary of each cell for the HTML report and the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tvmbuild.benchmarking.estimates import describe_ratio, judge
from tvmbuild.report.cells import CellReport
from tvmbuild.report.frames import format_time
from tvmbuild.report.latency import NAMES, format_ms, shorten_ratio

Kind = Literal["faster", "slower", "same", "timed", "emulated", "built", "failed", "unavailable", "not-built"]
SIGNS: dict[Kind, tuple[str, str]] = {
    "faster": ("▲", "faster than its baseline"),
    "same": ("≈", "no difference"),
    "slower": ("▼", "slower than its baseline"),
    "timed": ("●", "timed without a baseline"),
    "emulated": ("✓", "right on an emulated board, no times"),
    "built": ("□", "built, not run here"),
    "failed": ("✗", "failed"),
    "unavailable": ("⊘", "unavailable on this machine"),
    "not-built": ("·", "not built yet"),
}
"""Kind → its sign and the sign's meaning, in the order of a legend."""
DOUBTFUL = "?"
"""The mark after the sign of a cell whose latency is doubtful."""
_GRADES = (1.25, 2.0)
"""The factors, slower or faster, from which a cell gets the second and the third shade."""


@dataclass(frozen=True)
class Face:
    """The summary of a cell: a sign, one or two short texts, and a sentence."""

    kind: Kind
    sign: str
    grade: int
    """The distance of the ratio from 1, graded 1 to 3, or 0 without a ratio or a difference."""
    main: str
    """The latency, or the state in one or two words."""
    ratio: str
    """The ratio to the baseline, ``0.50x``, or an empty text without one."""
    coverage: str
    """The number of Tasks with a record, ``9/10``, or an empty text if it is not known."""
    framed: str
    """The time from the frame to the result in ms, ``→4.80``, or an empty text without one."""
    sentence: str


@dataclass(frozen=True)
class Matrix:
    """The project's models, targets and cells, each in the order of the files."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    cells: dict[tuple[str, str], CellReport]


def arrange(cells: Sequence[CellReport]) -> Matrix:
    """Return the cells as a matrix. A model that leaves out a target has no cell for it."""
    return Matrix(
        tuple(dict.fromkeys(cell.model for cell in cells)),
        tuple(dict.fromkeys(cell.target for cell in cells)),
        {(cell.model, cell.target): cell for cell in cells},
    )


def describe_face(cell: CellReport) -> Face:
    """Return the summary of the cell."""
    kind = _find_kind(cell)
    rival = cell.rival if kind in ("faster", "slower", "same") else None
    timed = kind in ("faster", "slower", "same", "timed")
    main = f"{format_ms(cell.result.latency.median.value)} ms" if cell.result and timed else cell.status
    coverage = "" if cell.tasks is None or cell.covered is None else f"{cell.covered}/{cell.tasks}"
    doubtful = bool(timed and cell.result and cell.result.warnings)
    parts = [main if timed else SIGNS[kind][1]]
    parts += [f"{describe_ratio(rival.ratio)} against {NAMES.get(rival.name, rival.name)}"] if rival else []
    framed = format_time(cell, "")
    parts += [f"{framed} ms from the frame to the result"] if framed and timed else []
    parts += [f"{coverage} Tasks have a record"] if coverage else []
    parts += ["doubtful: the machine or the calls were not quiet"] if doubtful else []
    return Face(
        kind=kind,
        sign=SIGNS[kind][0] + (DOUBTFUL if doubtful else ""),
        grade=_grade(rival.ratio.value) if rival and kind != "same" else 0,
        main="ok" if kind == "emulated" else main,
        ratio=shorten_ratio(rival.ratio) if rival else "",
        coverage=coverage,
        framed=f"→{framed}" if framed and timed else "",
        sentence=", ".join(parts),
    )


def _find_kind(cell: CellReport) -> Kind:
    if cell.status == "ok":
        if cell.rival is not None:
            verdict = judge(cell.rival.ratio)
            return "same" if verdict == "no difference" else verdict
        return "timed" if cell.result else "emulated"
    return "not-built" if cell.status == "not built" else cell.status


def _grade(ratio: float) -> int:
    factor = math.exp(abs(math.log(ratio)))
    return 1 + sum(factor >= least for least in _GRADES)
