from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_results import latency, make_entry, make_result, rival
from made_matrix import make_timed
from report_cells import cell_steps, only, shown, write_built, write_result

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.benchmarking.history import append_entry
from tvmbuild.benchmarking.results import SizeResult
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.report.cell_page import draw_operators
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.text import write_markdown
from tvmbuild.report.write import write_report


def test_a_doubtful_measurement_is_warned_of_everywhere(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu")
    result = replace(make_result(), warnings=("the machine was busy",))
    write_json(layout.cell_file("net", "cpu", "result.json"), result.to_json())
    assert "net@cpu: the machine was busy" in shown(tmp_path, steps, 80)
    write_report(tmp_path, steps)
    for path in (layout.report_markdown, layout.report_html):
        assert "net@cpu: the machine was busy" in path.read_text(), path


def test_no_difference_is_marked(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu", 4.04, 4.0)
    assert " ~1.01x " in shown(tmp_path, steps, 80)
    write_report(tmp_path, steps)
    assert "| ~1.01x |" in layout.report_markdown.read_text()
    assert "\\] | no difference |" in layout.report_markdown.read_text()
    assert ">no difference<" in layout.report_html.read_text()


@pytest.mark.parametrize("baselines", [True, False])
def test_every_size_is_listed(tmp_path: Path, *, baselines: bool) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu")
    rivals = (rival("onnxruntime", 1.0, 4.0),) if baselines else ()
    sizes = tuple(SizeResult(f"T{length}", latency(length / 32), rivals, 0.0, 0.0) for length in (16, 32))
    result = replace(make_result(), rivals=rivals, sizes=sizes)
    write_json(layout.cell_file("net", "cpu", "result.json"), result.to_json())
    write_report(tmp_path, steps)
    theirs = "ONNX Runtime" if baselines else "-"
    text, page = layout.report_markdown.read_text(), layout.report_html.read_text()
    for name, ms in (("net@cpu", "2.000"), ("net@cpu at T16", "0.5000"), ("net@cpu at T32", "1.000")):
        assert f"| {name} | {theirs} | {ms} \\[" in text
        assert f'<th scope="row">{name}</th><td>{theirs}</td><td>{ms} [' in page


def test_the_history_of_this_machine_is_shown(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu")
    result = make_result()
    other = replace(result, machine=replace(result.machine, cpu="Another CPU"))
    for day, each in enumerate([make_result(ms=9.0), other, make_result(ms=3.0), result]):
        append_entry(layout.history, make_entry(86_400 * day, each))
    (cell,) = collect_cells(tmp_path, steps)
    assert [entry.result.latency.median.value for entry in cell.history] == [9.0, 3.0, 2.0]
    write_report(tmp_path, steps)
    for path in (layout.report_markdown, layout.report_html):
        assert "3 benchmarks, 1970-01-01 to 1970-01-04: 2.00 to 9.00 ms" in path.read_text(), path
    assert "Latency of 3 runs, the oldest on the left; 0 regressions" in layout.report_html.read_text()
    layout.history.unlink()
    layout.history.mkdir()
    assert only(tmp_path, steps).history == ()


def test_cells_with_other_baselines_share_a_table(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu") + cell_steps("big", "cpu") + cell_steps("own", "cpu")
    for model in ("net", "big", "own"):
        write_built(layout, model, "cpu")
    write_result(layout, "net", "cpu")
    value = replace(make_result("big@cpu"), rivals=(rival("openvino", 2.0, 1.0),))
    write_json(layout.cell_file("big", "cpu", "result.json"), value.to_json())
    write_json(layout.cell_file("own", "cpu", "result.json"), replace(value, cell="own@cpu", rivals=()).to_json())
    write_report(tmp_path, steps)
    text = layout.report_markdown.read_text()
    assert "| TVM ms | baseline ms | ratio |" in text
    assert "| big@cpu | OpenVINO |" in text
    assert "| own | cpu | ok | 10/10 | 2.00 | - | - | 1.5e-06 |" in text
    assert " base ms" in shown(tmp_path, steps, 80)
    table, _, _ = shown(tmp_path, steps, 80).partition("3 cells")
    assert max(map(len, table.splitlines())) <= 80


def test_a_clock_that_shows_in_the_operators_sum_is_told_of() -> None:
    cell = make_timed("net", "cpu", (0.04, 0.1))
    assert cell.result is not None
    slowed = tuple(replace(row, us=5 * row.us) for row in cell.result.operators)
    by_clock = replace(cell, result=replace(cell.result, operators=slowed))
    says = "Timed one by one they take 200 us together, the whole call 40.0 us: the clock costs a few us for each call"
    assert says in write_markdown([by_clock])
    assert says in draw_operators(by_clock, 20)
    assert "one by one" not in write_markdown([cell]) + draw_operators(cell, 20)
    on_card = replace(by_clock, built_for=PackageTarget("h200", "cuda"))
    assert "one by one" not in write_markdown([on_card]) + draw_operators(on_card, 20)
