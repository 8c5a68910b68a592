"""The matrix on the terminal, as a grid if it fits, otherwise as a table with a row for each cell.

Remarks follow, one line each. Each colour has one meaning: green is good, yellow needs a look, red has failed, and dim
is not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tvmbuild.package.metadata import BUG, SLOW
from tvmbuild.report.cells import CellReport
from tvmbuild.report.frames import has_times, list_unmeasured
from tvmbuild.report.fronts import describe_fronts
from tvmbuild.report.latency import list_absent, list_doubts, name_baseline
from tvmbuild.report.matrix import DOUBTFUL, SIGNS, Face, Kind, arrange, describe_face
from tvmbuild.report.precisions import describe_precisions
from tvmbuild.report.text import cell_values, count_uncovered, summarize_cells, unavailable
from tvmbuild.report.unused import list_unused

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SHORT = {"ONNX Runtime": "ORT", "OpenVINO": "OV", "TVM untuned": "untuned", "baseline": "base"}
GOOD, LOOK, BAD, ABSENT = "green", "yellow", "red", "dim"
_THAN = " than its baseline"
"""The end of a sign's meaning that the terminal's legend omits."""
_ENDLESS = 100_000
"""A width of the terminal, in columns, in which every table fits."""
_STATUS_STYLES = {"ok": GOOD, "failed": BAD, "unavailable": ABSENT, "built": ABSENT, "not built": ABSENT}
_KIND_STYLES: dict[Kind, str] = {
    "faster": GOOD,
    "same": GOOD,
    "timed": GOOD,
    "emulated": GOOD,
    "slower": LOOK,
    "failed": BAD,
    "built": ABSENT,
    "unavailable": ABSENT,
    "not-built": ABSENT,
}


def print_matrix(console: Console, cells: Sequence[CellReport], *, long: bool = False) -> None:
    """Print the grid of cells, then remarks. With ``long``, or if the grid is too wide, print the table instead."""
    grid = None if long else _make_grid(cells)
    if grid is not None and _measure(console, grid) <= console.width:
        console.print(grid)
        console.print(_explain(cells), style=ABSENT, highlight=False, markup=False, soft_wrap=True)
    else:
        console.print(make_table(cells))
    for line in dict.fromkeys([summarize_cells(cells), *_list_remarks(cells)]):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _measure(console: Console, table: Table) -> int:
    """Return the width of the table, in columns, if all its texts are shown in full."""
    return console.measure(table, options=console.options.update(width=_ENDLESS)).maximum


def _make_grid(cells: Sequence[CellReport]) -> Table | None:
    """Return the grid of models by targets, or None for fewer than two cells."""
    from rich import box  # noqa: PLC0415 - slow to import, and not needed to write the files
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    matrix = arrange(cells)
    if len(matrix.cells) < 2:
        return None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("model", *matrix.targets):
        table.add_column(Text(name), no_wrap=True)
    for model in matrix.models:
        row = [Text(model)]
        for target in matrix.targets:
            cell = matrix.cells.get((model, target))
            row.append(Text("-", style=ABSENT) if cell is None else Text(*_describe(describe_face(cell))))
        table.add_row(*row)
    return table


def _describe(face: Face) -> tuple[str, str]:
    """Return the text of a cell in the grid, and its style."""
    doubtful = face.sign != SIGNS[face.kind][0]
    text = " ".join(part for part in (face.sign, face.main.removesuffix(" ms"), face.ratio, face.framed) if part)
    return text, LOOK if doubtful else _KIND_STYLES[face.kind]


def _explain(cells: Sequence[CellReport]) -> str:
    """Return the legend of the grid: the order of the numbers, and the signs in use."""
    found = {describe_face(cell).kind for cell in cells}
    short = {sign: says.removesuffix(_THAN) for kind, (sign, says) in SIGNS.items() if kind in found}
    signs = ", ".join(f"{sign} {says}" for sign, says in short.items())
    ratio = f" and TVM's time over {name_baseline(cells)}'s" if any(cell.rival for cell in cells) else ""
    framed = ", → ms from the frame to the result" if has_times(cells) else ""
    timed = f"median ms{ratio}{framed}; " if any(cell.result for cell in cells) else ""
    doubt = f", {DOUBTFUL} doubtful" if any(cell.result and cell.result.warnings for cell in cells) else ""
    return f"{timed}{signs}{doubt}; all columns: tvmbuild report -v"


def make_table(cells: Sequence[CellReport]) -> Table:
    """Return the table with a row for each cell."""
    from rich import box  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # The first columns of `columns` in report/text.py; the others would not fit a terminal of 80 columns.
    baseline = f"{_SHORT[name_baseline(cells)]} ms"
    framed = int(has_times(cells))
    heads = ("model", "target", "status", "tasks", "TVM ms", baseline, "ratio", "error", "size", *(("→ ms",) * framed))
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for index, name in enumerate(heads):
        longest = max((len(cell_values(cell)[index]) for cell in cells), default=0) if index < 2 else None
        table.add_column(name, justify="right" if index > 2 else "left", no_wrap=True, min_width=longest)
    for cell in cells:
        values = cell_values(cell)
        texts = [Text(value) for value in (*values[: len(heads) - framed], *values[len(values) - framed :])]
        texts[2].stylize(_STATUS_STYLES[cell.status])
        if cell.uncovered:
            texts[3].stylize(LOOK)
        table.add_row(*texts)
    return table


def _list_remarks(cells: Sequence[CellReport]) -> Iterator[str]:
    """Yield one line for each remark: failures and missing cells with their remedies, then doubtful results."""
    for cell in cells:
        if cell.failure:
            first = (cell.failure.message.splitlines() or [""])[0]  # the rest was printed at the failure
            yield _join(f"{cell.failure.step} failed: {first}", cell.failure.hint)
    for subject, reason in unavailable(cells):
        yield _join(f"{subject}: {reason}", None)
    yield from describe_precisions(cells)
    yield from describe_fronts(cells)
    yield from list_doubts(cells)
    yield from list_unused(cells)
    yield from (f"not measured: {each}" for each in list_absent(cells))
    yield from (f"frames: {each}" for each in list_unmeasured(cells))
    yield from (f"{cell.name}: {note}" for cell in cells for note in cell.notes if note.startswith((SLOW, BUG)))
    yield from count_uncovered(cells)
    yield from (f"{cell.name}: records in quarantine: {len(cell.quarantined)}" for cell in cells if cell.quarantined)


def _join(text: str, hint: str | None) -> str:
    text = text.removesuffix(":")
    return " ".join((text if not hint else f"{text}. {hint}" if hint[0].isupper() else f"{text}; {hint}").split())
