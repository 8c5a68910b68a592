"""The operators of a cell that stay in floats although its precision is reduced, and about what they cost in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmbuild.base.wording import name_some
from tvmbuild.report.cells import CellReport
from tvmbuild.report.latency import format_ms
from tvmbuild.report.precisions import UNKNOWN, list_pairs

TITLE = "Operators in floats, and their cost"
COLUMNS = ("cell", "group", "operators", "harm", "saving", "about ms")
MEANING = (
    "Harm is the group's share of the squared errors that each group alone causes in the reduced precision. Saving "
    "is an estimate from operations and memory: the group's share of the time that the precision would save if nothing "
    "stayed in floats."
)


def list_kept(cells: Sequence[CellReport]) -> list[tuple[str, ...]]:
    """Return one row for each group of operators in floats, with the texts of COLUMNS, the dearest first."""
    return [row for pair in list_pairs(cells) for row in _list_rows(pair.cell, pair.beside if pair.time else None)]


def _list_rows(cell: CellReport, beside: CellReport | None) -> Iterator[tuple[str, ...]]:
    gain = _estimate_gain(cell, beside)
    for each in sorted(cell.kept, key=lambda each: -each.cost):
        ms = UNKNOWN if gain is None else format_ms(gain * each.cost)
        harm = UNKNOWN if each.harm is None else f"{each.harm:.0%}"
        yield cell.name, each.name, name_some(each.nodes), harm, f"{each.cost:.0%}", ms


def _estimate_gain(cell: CellReport, beside: CellReport | None) -> float | None:
    """Return the estimate of the time that all operations together save in the reduced precision, in ms."""
    if cell.result is None or beside is None or beside.result is None:
        return None
    ours, full = cell.result.latency.median.value, beside.result.latency.median.value
    reduced = 1.0 - sum(each.cost for each in cell.kept)
    return (full - ours) / reduced if reduced > 0.0 and ours < full else None


def describe_kept(cells: Sequence[CellReport]) -> list[str]:
    """Return the rows as lines, for `tvmbuild explain`."""
    lines = []
    for row in list_kept(cells):
        told = dict(zip(COLUMNS, row, strict=True))
        ms = "" if told["about ms"] == UNKNOWN else f", about {told['about ms']} ms"
        harm = "" if told["harm"] == UNKNOWN else f", {told['harm']} of the harm"
        share = f"{told['saving']} of the saved time{harm}{ms}"
        lines.append(f"{told['cell']}: {told['group']} ({told['operators']}): {share}")
    return lines
