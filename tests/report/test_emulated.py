from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_results import make_result
from report_cells import cell_steps, only, shown, write_built, write_result

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.benchmarking.results import EmulatedResult, read_emulated, read_result
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.write import write_report

EMULATED = EmulatedResult(
    cell="net@pi4",
    product=make_result().product,
    threads=2,
    machine=MachineState("qemu aarch64", 2),
    max_abs_error=3e-6,
    max_rel_error=1e-5,
    accuracy=Agreement(4, 3, 0.25, 9.0),
)


def test_an_emulated_result_survives_its_file() -> None:
    data = EMULATED.to_json()
    assert (data["emulated"], data["latency_ms"]) == (True, None)
    assert read_emulated(data) == EMULATED
    assert read_result(data) is None
    assert read_emulated(make_result().to_json()) is None


@pytest.mark.parametrize("change", [{"format": 1}, {"max_abs_error": None}, {"package": {}}, {"machine": 3}])
def test_a_damaged_one_counts_as_none(change: dict[str, object]) -> None:
    assert read_emulated({**EMULATED.to_json(), **change}) is None


def test_times_of_an_emulated_board_are_dashes(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), [*cell_steps("net", "cpu"), *cell_steps("net", "pi4")[1:]]
    for target in ("cpu", "pi4"):
        write_built(layout, "net", target)
    write_result(layout, "net", "cpu", 2.0, 4.0)
    write_json(layout.cell_file("net", "pi4", "result.json"), EMULATED.to_json())
    cell = next(cell for cell in collect_cells(tmp_path, steps) if cell.target == "pi4")
    assert (cell.status, cell.result, cell.emulated) == ("ok", None, EMULATED)
    row = next(line for line in shown(tmp_path, steps, 80).splitlines() if " pi4 " in line)
    assert row.split() == ["net", "pi4", "ok", "10/10", "—", "—", "—", "3.0e-06", row.split()[-2], "kB"]
    write_report(tmp_path, steps)
    markdown, page = layout.report_markdown.read_text(), layout.report_html.read_text()
    assert "| net | pi4 | ok | 10/10 | — | — | — | 3.0e-06 |" in markdown
    assert "none: emulated boards have no times" in page
    assert "right on an emulated board, no times" in page
    for text in (markdown, page):
        assert "pi4: qemu aarch64, 2 threads (emulated: no times)" in text
        assert "same top-1 for 3 of 4 (75.0%)" in text
    assert "net@pi4 |" not in markdown.split("## Latency")[1].split("##")[0]


def test_an_emulated_cell_alone(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "pi4")
    write_built(layout, "net", "pi4")
    write_json(layout.cell_file("net", "pi4", "result.json"), EMULATED.to_json())
    assert only(tmp_path, steps).checked == EMULATED
    write_report(tmp_path, steps)
    assert "## Latency" not in layout.report_markdown.read_text()
