from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from benchmark_results import make_result, rival
from report_cells import cell_steps, only, shown, write_built, write_result

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.benchmarking.results import Absent
from tvmbuild.package.memory import format_size
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.facts import list_facts
from tvmbuild.report.html_parts import VOID
from tvmbuild.report.latency import format_ms
from tvmbuild.report.write import write_report

EVIL = "<script>alert(1)</script> | `x` [bold]y[/bold]"


def test_nothing_built(tmp_path: Path) -> None:
    steps = cell_steps("net", "cpu")
    assert only(tmp_path, steps).status == "not built"
    write_report(tmp_path, steps)
    assert "| net | cpu | not built | - | - | - | - | - | - | - |" in Layout(tmp_path).report_markdown.read_text()


def test_why_nothing_was_searched(tmp_path: Path) -> None:
    steps = cell_steps("net", "cpu", no_device="this CPU lacks instructions of znver4")
    tuned = {"tasks": 3, "covered": 1, "uncovered": [{"key": "1", "name": "conv2d"}, {"key": "2", "name": "dense"}]}
    write_json(Layout(tmp_path).cell_file("net", "cpu", "tune.json"), tuned)
    said = "net@cpu: 2 of 3 Tasks without a record; none is searched here: this CPU lacks instructions of znver4"
    assert said in shown(tmp_path, steps, 200)
    assert "net@cpu: 2 of 3 Tasks without a record\n" in shown(tmp_path, cell_steps("net", "cpu"), 200)


def test_no_cells(tmp_path: Path) -> None:
    write_report(tmp_path, [])
    assert "no cells" in Layout(tmp_path).report_html.read_text()
    assert "no cells" in shown(tmp_path, [])


def test_a_measured_cell(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu", ("conv2d", "conv2d", "dense"), note="layout NCHW: ConvertLayout failed")
    write_result(layout, "net", "cpu")
    write_json(layout.model_file("net", "simplify.json"), {"notes": ["not simplified: onnxsim crashed"]})
    cell = only(tmp_path, steps)
    assert ("memory", "407 kB: weights 400 kB, code 7 kB, workspace unknown") in {
        (fact.name, fact.text) for fact in list_facts(cell)
    }
    assert cell.status == "ok"
    path = layout.cell_file("net", "cpu", "result.json")
    write_json(path, json.loads(path.read_text()) | {"call_memory_mb": 0.25})
    assert ("measured in a call", "262 kB of workspace and scratch memory") in {
        (fact.name, fact.text) for fact in list_facts(only(tmp_path, steps))
    }
    assert cell.rival is not None
    assert cell.rival.ratio.value == 0.5
    write_report(tmp_path, steps)
    text = layout.report_markdown.read_text()
    size = format_size(layout.package("net", "cpu").stat().st_size)
    assert f"| net | cpu | ok | 7/10 | 2.00 | 4.00 | 0.50x | 1.5e-06 | {size} | 90 MiB |" in text
    assert "<td>90 MiB with Python and TVM's runtime</td>" in layout.report_html.read_text()
    assert "- net@cpu: 3 of 10 Tasks: conv2d (2 times), dense" in text
    assert "- net@cpu: not simplified: onnxsim crashed" in text
    assert "- net@cpu: layout NCHW: ConvertLayout failed" in text
    assert "- cpu: A CPU, 2 threads" in text
    assert "| net@cpu | ONNX Runtime | 2.000 \\[1.960, 2.040\\] | 4.000 \\[3.920, 4.080\\] |" in text
    assert "| 0.500 \\[0.490, 0.510\\] | 2.00x faster |" in text
    assert "- OpenVINO (net@cpu): OpenVINO is not installed; install it" in text
    assert "| conv2d\\_add | 2 | 1500 | 75% | 7 | yes |" in text
    assert "- net@cpu: 25% of its time" in text
    terminal = shown(tmp_path, steps, 80)
    assert "ORT ms" in terminal
    assert "0.50x" in terminal
    assert "not measured: OpenVINO (net@cpu): OpenVINO is not installed" in terminal
    assert "MiB" not in terminal
    assert "net@cpu: 3 of 10 Tasks without a record" in terminal


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 1},
        {"format": None},
        {"baselines": None},
        {"latency_ms": {"median": 1.0}},
        {"latency_ms": 3},
        {"threads": "x"},
    ],
)
def test_a_result_that_cannot_be_read_is_not_benchmarked(tmp_path: Path, damage: dict[str, object]) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu")
    path = layout.cell_file("net", "cpu", "result.json")
    assert only(tmp_path, steps).status == "ok"
    write_json(path, json.loads(path.read_text()) | damage)
    cell = only(tmp_path, steps)
    assert (cell.status, cell.reason, cell.result) == ("built", "not benchmarked yet; `doit` does it", None)
    write_report(tmp_path, steps)
    assert "| net | cpu | built |" in layout.report_markdown.read_text()


def test_a_failed_step_shows_no_numbers_of_an_earlier_run(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_built(layout, "net", "cpu")
    write_result(layout, "net", "cpu")
    write_json(layout.failure("benchmark:net@cpu"), {"message": "off by 3", "hint": "raise it.", "log": "build/logs/b"})
    cell = only(tmp_path, steps)
    assert (cell.status, cell.reason) == ("failed", "benchmark:net@cpu: off by 3")
    assert cell.result is None
    assert cell.package_bytes is not None
    write_json(layout.failure("compile:net@cpu"), {"message": "no such operator", "hint": None, "log": None})
    cell = only(tmp_path, steps)
    assert cell.reason == "compile:net@cpu: no such operator"
    assert cell.package_bytes is None
    layout.failure("compile:net@cpu").unlink()
    write_report(tmp_path, steps)
    expected = "- benchmark:net@cpu: off by 3. Hint: raise it. Log: build/logs/b"
    assert expected in layout.report_markdown.read_text()
    assert f"<li>{expected[2:]}</li>" in layout.report_html.read_text()


def test_a_failed_model_fails_its_cells(tmp_path: Path) -> None:
    steps = cell_steps("net", "cpu")[1:] + cell_steps("net", "gpu")
    write_json(Layout(tmp_path).failure("simplify:net"), {"message": "not an ONNX file", "hint": None, "log": None})
    assert [cell.status for cell in collect_cells(tmp_path, steps)] == ["failed", "failed"]
    assert shown(tmp_path, steps).count("simplify:net failed: not an ONNX file") == 1


def test_unavailable_cells_say_why_once(tmp_path: Path) -> None:
    steps = cell_steps("a", "gpu", "no Vulkan: install a TVM that has it") + cell_steps("b", "gpu", "no Vulkan")
    steps += cell_steps("c", "gpu", "no Vulkan")
    assert {cell.status for cell in collect_cells(tmp_path, steps)} == {"unavailable"}
    write_report(tmp_path, steps)
    text = Layout(tmp_path).report_markdown.read_text()
    assert "- gpu (a): no Vulkan: install a TVM that has it\n- gpu (b, c): no Vulkan\n" in text


def test_a_package_without_a_device_is_built(tmp_path: Path) -> None:
    steps = cell_steps("net", "pi4", no_device="pi4 has `device: none`")
    write_built(Layout(tmp_path), "net", "pi4")
    cell = only(tmp_path, steps)
    assert (cell.status, cell.reason) == ("built", "pi4 has `device: none`")
    assert only(tmp_path, steps[:-1]).status == "built"


def test_coverage_of_a_tuned_cell_before_it_is_built(tmp_path: Path) -> None:
    tune = {"format": 1, "tasks": 3, "covered": 2, "uncovered": [{"key": "00", "name": "dense"}]}
    write_json(Layout(tmp_path).cell_file("net", "cpu", "tune.json"), tune)
    cell = only(tmp_path, cell_steps("net", "cpu"))
    assert (cell.covered, cell.tasks, cell.uncovered) == (2, 3, ("dense",))


def test_records_in_quarantine_are_warned_of_everywhere(tmp_path: Path) -> None:
    row = {"key": "00ff" * 4, "name": "dense", "of": "trace", "reason": "TVM crashed (SIGFPE)"}
    tune = {"format": 1, "tasks": 3, "covered": 3, "uncovered": [], "quarantined": [row]}
    write_json(Layout(tmp_path).cell_file("net", "cpu", "tune.json"), tune)
    steps = cell_steps("net", "cpu")
    assert "net@cpu: records in quarantine: 1" in shown(tmp_path, steps)
    write_report(tmp_path, steps)
    for path in (Layout(tmp_path).report_markdown, Layout(tmp_path).report_html):
        assert f"dense ({row['key']}): TVM crashed (SIGFPE)" in path.read_text(), path


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_damaged_files_are_as_if_absent(tmp_path: Path, content: bytes) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    for path in (
        layout.package("net", "cpu"),
        layout.cell_file("net", "cpu", "tune.json"),
        layout.cell_file("net", "cpu", "result.json"),
        layout.model_file("net", "simplify.json"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert only(tmp_path, steps).status == "not built"


class Tags(HTMLParser):
    """Collects the tags; checks that they close in order, and that links lead within the page or to a record file."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: Counter[str] = Counter()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        names = dict(attrs)
        assert not {"src", "style", "srcdoc", "action"} & names.keys()
        assert not any(name.startswith("on") for name in names)
        assert (names.get("href") or "#").startswith(("#", "../records/"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_texts_from_outside_are_escaped(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    steps = cell_steps("net", "cpu") + cell_steps("bad", "cpu") + cell_steps("off", "gpu", EVIL)
    write_built(layout, "net", "cpu", (EVIL,), note=EVIL)
    plain = make_result()
    operators = tuple(replace(row, name=EVIL) for row in plain.operators)
    evil = replace(plain, absent=(Absent("x", EVIL),), warnings=(EVIL,), operators=operators)
    evil = replace(evil, machine=replace(evil.machine, cpu=EVIL), rivals=(rival(EVIL, 2.0, 4.0),))
    write_json(layout.cell_file("net", "cpu", "result.json"), evil.to_json())
    write_json(layout.failure("tune:bad@cpu"), {"message": EVIL, "hint": EVIL, "log": EVIL})
    write_report(tmp_path, steps)
    tags = Tags()
    tags.feed(layout.report_html.read_text())
    tags.close()
    assert tags.open == []
    assert {"svg", "rect", "table"} <= tags.seen.keys()
    assert tags.seen["script"] == 1
    assert tags.text.count(EVIL) + tags.text.count(EVIL.replace("`", "")) >= 10
    assert "<script" not in layout.report_markdown.read_text()
    rows = [line for line in layout.report_markdown.read_text().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {7, 11}
    assert "[bold]y[/bold]" in shown(tmp_path, steps)


def test_files_that_would_not_change_are_left_alone(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "cpu")
    write_report(tmp_path, steps)
    before = [path.stat().st_mtime_ns for path in (layout.report_markdown, layout.report_html)]
    time.sleep(0.01)
    write_report(tmp_path, steps)
    assert [path.stat().st_mtime_ns for path in (layout.report_markdown, layout.report_html)] == before
    write_built(layout, "net", "cpu")
    write_report(tmp_path, steps)
    assert layout.report_html.stat().st_mtime_ns != before[1]


def test_a_thousand_cells_cost_no_more_each_than_a_hundred(tmp_path: Path) -> None:
    def spend(networks: int) -> float:
        steps = [step for i in range(networks) for target in "abcde" for step in cell_steps(f"net{i}", target)]
        start = time.process_time()
        write_report(tmp_path, steps)
        return (time.process_time() - start) / networks

    assert min(spend(200) for _ in range(3)) < 4 * min(spend(20) for _ in range(3))


def test_importing_the_report_imports_nothing_slow() -> None:
    program = (
        "import sys, tvmbuild.report.write as r\n"
        "slow = {'numpy', 'onnx', 'onnxruntime', 'tvm', 'rich', 'doit', 'yaml'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("value", "text"), [(1161.03, "1161"), (215.7, "216"), (13.64, "13.6"), (2.0, "2.00"), (0.0415, "0.042")]
)
def test_milliseconds(value: float, text: str) -> None:
    assert format_ms(value) == text


@pytest.mark.parametrize(("value", "text"), [(14387200, "14.4 MB"), (81920, "82 kB")])
def test_sizes(value: int, text: str) -> None:
    assert format_size(value) == text
