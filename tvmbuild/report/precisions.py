"""The comparison of a model's cells in several precisions: latency, size, agreement with the original, energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.benchmarking.estimates import Estimate, divide
from tvmbuild.package.memory import format_size
from tvmbuild.report.cells import CellReport
from tvmbuild.report.frames import find_joules, format_joules
from tvmbuild.report.latency import format_ms, shorten_ratio

FULL = "fp32"
TITLE = "Precisions side by side"
COLUMNS = (
    "cell",
    "precision",
    "beside",
    "ms",
    "fp32 ms",
    "time",
    "package",
    "fp32 package",
    "size",
    "top-1",
    "rms",
    "metric",
    "J",
    "fp32 J",
)
MEANING = (
    "Time and size are shares of the fp32 cell's, times from two runs. Top-1 and rms are the cell's agreement with the "
    "original model on real inputs; the metric is the user's, beside that of the original model. J is the machine's "
    "energy for one frame of a cell whose package takes frames, where the machine tells it."
)
UNKNOWN = "-"


@dataclass(frozen=True)
class Pair:
    """A cell of reduced precision, and the cell of the same model in fp32 to compare it with, if there is one."""

    cell: CellReport
    precision: str
    beside: CellReport | None

    @property
    def time(self) -> Estimate | None:
        """The cell's latency over that of the fp32 cell.

        It is None if they were not timed on the same machine with the same number of threads.
        """
        if not self.cell.result or not self.beside or not self.beside.result or not _is_alike(self.cell, self.beside):
            return None
        return divide(self.cell.result.latency.median, self.beside.result.latency.median)

    @property
    def size(self) -> float | None:
        """The cell's package size over that of the fp32 cell, or None if one of them is not built."""
        ours, theirs = self.cell.package_bytes, self.beside and self.beside.package_bytes
        return ours / theirs if ours and theirs else None


def list_pairs(cells: Sequence[CellReport]) -> list[Pair]:
    """Return every built cell of reduced precision with its fp32 cell.

    The fp32 cell is the same model for a target of the same kind and the same attributes except `mattr`. If there is
    none, it is the fastest one that was measured on the same machine with as many threads.
    """
    full = [cell for cell in cells if cell.built_for and cell.built_for.precision == FULL]
    return [
        Pair(cell, cell.built_for.precision, _find_beside(cell, [each for each in full if each.model == cell.model]))
        for cell in cells
        if cell.built_for and cell.built_for.precision != FULL
    ]


def _find_beside(cell: CellReport, full: Sequence[CellReport]) -> CellReport | None:
    same = [each for each in full if _list_hardware(each) == _list_hardware(cell)]
    alike = [each for each in same or full if _is_alike(cell, each)]
    return min(alike, key=_median, default=same[0] if same else None)


def _list_hardware(cell: CellReport) -> tuple[str, Mapping[str, AttributeValue], Mapping[str, AttributeValue]] | None:
    target = cell.built_for
    if target is None:
        return None
    own, host = (
        {name: value for name, value in attributes.items() if name != "mattr"}
        for attributes in (target.attributes, target.host)
    )
    return (target.kind, own, host)


def _is_alike(cell: CellReport, other: CellReport) -> bool:
    """Return whether both cells were timed on the same machine with the same number of threads."""
    if not cell.result or not other.result:
        return False
    ours, theirs = cell.result, other.result
    return (ours.machine.name, ours.threads) == (theirs.machine.name, theirs.threads)


def _median(cell: CellReport) -> float:
    return cell.result.latency.median.value if cell.result else float("inf")


def list_precisions(cells: Sequence[CellReport]) -> list[tuple[str, ...]]:
    """Return one row for each pair, with the texts of COLUMNS."""
    return [tuple(_list_values(pair)) for pair in list_pairs(cells)]


def _list_values(pair: Pair) -> Iterator[str]:
    cell, beside, agreement = pair.cell, pair.beside, pair.cell.accuracy
    yield from (cell.name, pair.precision, beside.target if beside else UNKNOWN)
    yield from (_show_ms(cell), _show_ms(beside), shorten_ratio(pair.time) if pair.time else UNKNOWN)
    yield from (_show_bytes(cell), _show_bytes(beside), f"{pair.size:.2f}x" if pair.size else UNKNOWN)
    yield f"{agreement.agreeing} of {agreement.samples}" if agreement else UNKNOWN
    yield f"{agreement.rms:.2%}" if agreement and agreement.rms is not None else UNKNOWN
    metric = agreement.metric if agreement else None
    yield UNKNOWN if agreement is None or metric is None else f"{metric:.4g} of {agreement.metric_original:.4g}"
    yield from (_show_joules(each) for each in (cell, beside))


def _show_ms(cell: CellReport | None) -> str:
    return format_ms(cell.result.latency.median.value) if cell and cell.result else UNKNOWN


def _show_joules(cell: CellReport | None) -> str:
    joules = find_joules(cell) if cell else None
    return UNKNOWN if joules is None else format_joules(joules)


def _show_bytes(cell: CellReport | None) -> str:
    return format_size(cell.package_bytes) if cell and cell.package_bytes else UNKNOWN


def describe_precisions(cells: Sequence[CellReport]) -> list[str]:
    """Return one line for each pair with known facts, for the terminal, whose table has times and sizes."""
    lines = []
    for pair in list_pairs(cells):
        told = dict(zip(COLUMNS, _list_values(pair), strict=True))
        parts = [f"{told[share]} the {share}" for share in ("time", "size") if told[share] != UNKNOWN]
        parts = [f"{' and '.join(parts)} of {told['beside']}"] if parts else []
        parts += [f"same top-1 for {told['top-1']}"] if told["top-1"] != UNKNOWN else []
        parts += [f"rms {told['rms']}"] if told["rms"] != UNKNOWN else []
        parts += [f"metric {told['metric']}"] if told["metric"] != UNKNOWN else []
        parts += [f"{told['J']} J a frame"] if told["J"] != UNKNOWN else []
        if parts:
            lines.append(f"{pair.cell.name} ({pair.precision}): {', '.join(parts)}")
    return lines
