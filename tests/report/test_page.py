"""The page's parts, without a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_results import make_entry, make_result
from made_matrix import PEAK, make_matrix, make_timed
from report_cells import cell_steps, only, write_built, write_built_for, write_result

from tvmbuild.base.layout import Layout
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import OperatorRow
from tvmbuild.records.journal import Entry, append_entry
from tvmbuild.records.selection import TaskId, write_tasks
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.report.charts import describe_regression, list_regressions
from tvmbuild.report.html_page import write_html
from tvmbuild.report.html_parts import Html, cell_id, join, mark_code, tag
from tvmbuild.report.limits import choose_limits
from tvmbuild.report.matrix import arrange, describe_face
from tvmbuild.report.peaks import GPU_THREADS, add_peak, name_chip, read_peaks
from tvmbuild.report.plot import Axis, fit_linear, fit_log
from tvmbuild.report.roofline import describe_roof, draw_roofline

MEGABYTE = 1_000_000


def test_a_page_of_200_full_cells_is_small() -> None:
    tasks = choose_limits(200).tasks
    cells = [make_timed(f"model_{i}", f"x86-64-v{j}", history=60, tasks=tasks) for i in range(20) for j in range(10)]
    assert len(write_html(cells).encode()) < 2 * MEGABYTE


def test_what_is_no_markup_is_escaped() -> None:
    assert tag("a", "<b>", Html("<i>"), href='"', title=None, hidden=True) == '<a href="&quot;" hidden>&lt;b&gt;<i></a>'
    assert tag("path", stroke_width=0.25, x=12.6) == '<path stroke-width="0.2" x="13"></path>'
    assert join(["&", Html("&amp;")], " ") == "& &amp;".replace("&", "&amp;", 1)
    assert cell_id("a b@<c>") == "a%20b@%3Cc%3E"


def test_commands_look_like_commands() -> None:
    assert mark_code("`a<b` makes it") == "<code>a&lt;b</code> makes it"
    assert mark_code("one ` and <no> more") == "one ` and &lt;no&gt; more"


@pytest.mark.parametrize("apart", [1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5])
def test_numbers_of_dots_side_by_side_do_not_touch(apart: float) -> None:
    row = OperatorRow("f", "conv2d", None, 1, 100.0, 0.1, flops=2**20, bytes=2**16, covered=True)
    rows = [replace(row, bytes=round(bytes_)) for bytes_ in (2**12, 2**16, 2**16 * apart, 2**20)]
    drawn = draw_roofline(list(zip((8, 10, 11, 9), rows, strict=True)), None)
    found = re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)">(10|11)</text>', drawn[drawn.rindex('class="middle"') :])
    (x, y), (other_x, other_y) = [(float(left), float(top)) for left, top, _ in found]
    assert abs(x - other_x) > 2 * 7 + 2 or abs(y - other_y) >= 10


def test_what_a_cell_says_at_a_glance() -> None:
    timed = make_timed("net", "cpu", (2.0, 3.0))
    face = describe_face(timed)
    assert (face.kind, face.grade, face.main, face.ratio, face.coverage) == ("faster", 2, "2.00 ms", "0.67x", "33/34")
    assert face.sentence == "2.00 ms, 1.50x faster against ONNX Runtime, 33/34 Tasks have a record"
    assert describe_face(make_timed("net", "cpu", (3.0, 2.97))).kind == "same"
    slower = describe_face(make_timed("net", "cpu", (9.0, 3.0)))
    assert (slower.kind, slower.grade, slower.sign) == ("slower", 3, "▼")
    assert timed.result is not None
    doubtful = describe_face(replace(timed, result=replace(timed.result, warnings=("busy",))))
    assert doubtful.sign == "▲?"
    assert "doubtful" in doubtful.sentence
    assert describe_face(replace(timed, result=replace(timed.result, rivals=()))).kind == "timed"


def test_a_model_without_a_target_leaves_a_gap() -> None:
    cells = [make_timed("a", "x"), make_timed("a", "y"), make_timed("b", "y")]
    matrix = arrange(cells)
    assert (matrix.models, matrix.targets, ("b", "x") in matrix.cells) == (("a", "b"), ("x", "y"), False)
    assert "the model is not built for this target" in write_html(cells)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    page = write_html([only(tmp_path, steps)])
    assert "Not tuned yet" in page
    assert "none: not benchmarked" in page
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu")
    page = write_html([only(tmp_path, steps)])
    for said in (
        "No earlier run on this machine",
        "Its tasks.json is not here",
        "No roof: the peaks of the machine that timed it were not measured. ",
        "If it is this one, <code>tvmbuild report --peaks</code> measures them",
    ):
        assert said in page, said


def test_the_roof_is_that_of_the_machine_and_its_threads(tmp_path: Path) -> None:
    layout, steps, result = Layout(tmp_path), cell_steps("net", "cpu"), make_result()
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu")
    assert read_peaks(layout.peaks) == {}
    add_peak(layout.peaks, result.machine.name, replace(PEAK, threads=1))
    add_peak(layout.peaks, "another", PEAK)
    assert only(tmp_path, steps).peak is None
    add_peak(layout.peaks, result.machine.name, PEAK)
    assert only(tmp_path, steps).peak == PEAK
    assert 'class="roof"' in write_html([only(tmp_path, steps)])
    assert len(read_peaks(layout.peaks)) == 3
    layout.peaks.write_text("[]")
    assert only(tmp_path, steps).peak is None
    assert "with 2 threads" in describe_roof(PEAK, on_cpu=True)


def test_tuning_is_read_from_records_and_courses(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    keys = ["0" * 16, "1" * 16, "2" * 16]
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu")
    weights = {keys[0]: 1, keys[1]: 1, keys[2]: 9}
    write_tasks(layout.cell_file("net", "cpu", "tasks.json"), [TaskId(k, f"op{k[0]}", n) for k, n in weights.items()])
    target = '{"attributes":{},"host":{},"kind":"llvm"}'
    file = TaskFile(keys[0], "op0", "{}", target, "0.27").with_results("zen4", (_record(2e-6), _record(3e-6)), 64)
    write_task_file(record_path(layout.records("cpu"), keys[0]), file)
    record_path(layout.records("cpu"), keys[1]).write_text("{")
    for measured, seconds in ((1, 5e-6), (2, 2e-6)):
        append_entry(layout.journal("cpu", keys[0]), Entry("zen4", measured, _record(seconds), "t"))
    tuned = only(tmp_path, steps).tuning
    assert [each.task.name for each in tuned.tasks] == ["op0", "op1", "op2"]  # as long as they take, then calls
    first, damaged, absent = tuned.tasks
    assert (first.candidates, first.seconds, first.device_class, first.is_searched) == (64, 2e-6, "zen4", True)
    assert first.course is not None
    assert first.course.points == ((1, 5e-6), (2, 2e-6))
    assert (damaged.record, damaged.device_class, absent.record) == (f"records/cpu/{keys[1]}.json", None, None)
    page = write_html([only(tmp_path, steps)])
    assert f'<a href="../records/cpu/{keys[0]}.json">op0</a></td><td>1</td><td>2</td><td>64 on zen4, search not' in page
    assert "its record file is damaged" in page
    assert "Task 1: 0.40 after 2" in page


def _record(seconds: float) -> Record:
    return Record(f'{{"decisions":[],"instructions":[["S",[],[{seconds}],[]]]}}', seconds, "zen4", 2, "0.27")


def test_regressions_are_marked() -> None:
    quick, slow = (replace(make_result(ms=ms), rivals=()) for ms in (2.0, 3.0))
    entries = [make_entry(0, quick, a="x"), make_entry(86_400, slow, a="y")]
    (change,) = list_regressions(entries)
    assert describe_regression(change) == (
        "1970-01-02 00:00: 1.500 [1.458, 1.543] of the run before; the schedules of 1 Task changed"
    )
    assert list_regressions(entries[::-1]) == []
    page = write_html([replace(make_timed("net", "cpu"), history=tuple(entries))])
    assert 'class="mark"' in page
    assert "▲ slower" in page


def test_the_roof_of_a_gpus_cell_is_the_gpus(tmp_path: Path) -> None:
    layout, steps, result = Layout(tmp_path), cell_steps("net", "h200"), make_result("net@h200")
    write_built_for(layout, "net", PackageTarget("h200", "cuda"))
    write_result(layout, "net", "h200")
    add_peak(layout.peaks, result.machine.name, PEAK)
    assert only(tmp_path, steps).peak is None
    assert "No roof: the peaks of the GPU that timed it were not measured. If it is this machine's" in write_html(
        [only(tmp_path, steps)]
    )
    peak = replace(PEAK, threads=GPU_THREADS)
    add_peak(layout.peaks, name_chip(result.machine.name, PackageTarget("h200", "cuda")), peak)
    assert only(tmp_path, steps).peak == peak
    assert "measured on this machine's GPU;" in write_html([only(tmp_path, steps)])


@pytest.mark.parametrize("cells", [1, 3, 15])
def test_no_attribute_is_of_outside(cells: int) -> None:
    page = write_html(make_matrix(cells, 1))
    assert page.count("<script>") == 1
    assert "http:" not in page.replace("http-equiv", "")
    assert "script-src 'sha256-" in page.replace("&#x27;", "'")


def test_axes_have_round_ticks() -> None:
    assert fit_linear([0.2, 0.38], "").list_ticks() == pytest.approx([0.2, 0.3])
    assert fit_linear([1.0, 1.0], "").list_ticks()
    assert fit_linear([0.0, 0.0], "").list_ticks()
    assert fit_log([0.5, 300.0], "").list_ticks() == [1.0, 10.0, 100.0]
    assert fit_log([3.0, 3.0], "").list_ticks() == [2.0]
    assert Axis(1, 100, logarithmic=True, title="").share(10) == pytest.approx(0.5)


def test_a_cell_was_measured_when_its_result_was() -> None:
    cell = make_timed("net", "cpu", history=3)
    later = make_entry(cell.history[-1].time + 86_400, make_result("net@cpu", 2.5))
    assert "<td>2026-05-30 20:26</td>" in write_html([replace(cell, history=(*cell.history, later))])
