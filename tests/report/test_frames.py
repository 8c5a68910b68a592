"""The way from a frame to the result in the reports: a column, a bar of three parts, and lines of reasons."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

from benchmark_results import make_entry, make_framed, make_result
from made_matrix import make_timed
from rich.console import Console

from tvmbuild.benchmarking.frames.results import FrameCheck, FrameResult
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.report.cells import CellReport
from tvmbuild.report.html_page import write_html
from tvmbuild.report.terminal import print_matrix
from tvmbuild.report.text import write_markdown

ABSENT = ("opencv", "OpenCV is not installed; `pip install opencv-python-headless` brings it")
UNTIMED = FrameResult("nv12 [75, 80], antialias", FrameCheck(0, 0, 0.0, 0.0, None), notes=("not on this device",))


def make_cell(model: str = "net", frames: FrameResult | None = None, **more: Any) -> CellReport:
    cell = make_timed(model, "cpu")
    assert cell.result is not None
    result = replace(cell.result, frames=frames or make_framed())
    return replace(cell, result=result, takes_frames=True, **more)


def show(cells: list[CellReport], *, long: bool = False) -> str:
    file = io.StringIO()
    print_matrix(Console(file=file, width=120, color_system=None), cells, long=long)
    return file.getvalue()


def test_the_terminal_has_a_column_if_a_cell_was_timed() -> None:
    cells = [make_cell(), make_timed("plain", "cpu")]
    table = show(cells, long=True).splitlines()
    assert table[1].split()[-2:] == ["→", "ms"]
    assert table[3].split()[-1] == "4.80"
    assert table[4].split()[-1] == "-"
    grid = show(cells)
    assert "▲ 2.00 0.67x →4.80" in grid
    assert "→ ms from the frame to the result" in grid
    assert "→" not in show(cells[1:])


def test_all_that_was_not_measured_has_a_line() -> None:
    absent = replace(make_framed(), rivals=(), absent=(ABSENT,))
    unrun = replace(make_cell("unrun"), result=None)
    lines = show([make_cell("a", absent), make_cell("b", UNTIMED), unrun])
    assert f"frames: a@cpu: OpenCV + ONNX Runtime: {ABSENT[1]}" in lines
    assert "frames: b@cpu: not on this device" in lines
    assert "frames: unrun@cpu: frames and results were not compared: no device ran the package" in lines
    validated = replace(unrun, validated=Validated(0.0, 0.0, "a card", frames="2 frames within 1 steps of a byte"))
    assert "not compared" not in show([make_cell("a"), validated])


def test_the_page_has_a_bar_of_three_parts_for_each_way() -> None:
    page = write_html([make_cell(), make_timed("plain", "cpu")])
    assert re.findall(r'<rect class="part-(\w+)"', page) == ["prepare", "network", "result"] * 2
    widths = [float(each) for each in re.findall(r'<rect class="part-\w+"[^>]* width="([\d.]+)"', page)]
    assert sum(widths[3:]) > sum(widths[:3]) > 0
    assert "OpenCV + ONNX Runtime" in page
    assert '<span class="framed">→4.80 ms</span>' in page
    assert "the same 12 boxes, scores within 2.0e-06" in page
    assert page.count("From the frame to the result</h3>") == 1
    assert "part-network" not in write_html([make_timed("plain", "cpu")]).partition("</style>")[2]


def test_a_cell_without_times_says_why() -> None:
    page = write_html([make_cell(frames=UNTIMED)])
    assert "From the frame to the result</h3>" in page
    assert "none: not on this device" in page
    assert "compared with plain NumPy: nothing compared" in page


def test_the_runs_have_a_column() -> None:
    result = make_result()
    entries = tuple(
        make_entry(1_780_000_000 + day, each)
        for day, each in enumerate((result, replace(result, frames=make_framed())))
    )
    page = write_html([make_cell(history=entries)])
    assert '<th scope="col">frame → result, ms</th>' in page
    assert "<td>4.800 [4.704, 4.896]</td>" in page


def test_markdown_has_both_ways() -> None:
    text = write_markdown([make_cell()])
    head, _, ours, theirs = text.partition("## From the frame to the result\n\n")[2].splitlines()[:4]
    assert head.startswith(
        "| cell | way | frame | frame → result ms | 95 % | 99 % | prepare | network | result | CPU ms |"
    )
    assert [each.strip() for each in ours.split("|")[4:13]] == [
        "4.80",
        "21.6",
        "6.24",
        "0.480",
        "3.84",
        "0.240",
        "8.64",
        "0.07",
        "",
    ]
    assert "| OpenCV + ONNX Runtime |" in theirs
    assert "0.800 \\[0.784, 0.816\\]" in theirs
    assert "- net@cpu: at the end: 61 °C, clock at 97 % of its highest rate" in text.replace("97%", "97 %")
    assert text.splitlines()[4].endswith("| frame → result ms |")
