"""Cells of one model in several precisions beside each other, and cells that are too far from the original."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_results import make_framed, make_result
from report_cells import CELL_OPTIONS, cell_steps, only, shown, write_built_for, write_result

from tvmbuild.base.attributes import AttributeValue, Precision
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Accuracy, Keep
from tvmbuild.base.steps import AnyStep, KeepStep, Step
from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.front_chart import draw_front
from tvmbuild.report.fronts import describe_fronts, list_fronts
from tvmbuild.report.kept import TITLE as KEPT
from tvmbuild.report.kept import describe_kept, list_kept
from tvmbuild.report.precisions import COLUMNS, TITLE, list_pairs, list_precisions
from tvmbuild.report.write import write_report

SIZES = ("113 kB", "420 kB", "0.27x")
AGREEMENT = Agreement(20, 19, 0.26, 19.8, 0.013, 0.0041, worst_top1="cat.png")
FAR = {"message": "too far", "hint": None, "log": None, "ran": True, "kept": True}


def make_target(name: str, precision: Precision = "fp32", **attributes: AttributeValue) -> PackageTarget:
    return PackageTarget(name, "llvm", FrozenMap(sorted(attributes.items())), precision=precision)


V4 = make_target("v4", mcpu="x86-64-v4")
V3 = make_target("v3", mcpu="x86-64-v3")
VNNI = make_target("vnni", "int8", mcpu="x86-64-v4", mattr=("+avx512vnni",))
HALF = make_target("half", "fp16", mcpu="sapphirerapids")


def build(root: Path, *targets: PackageTarget, **ms: float) -> list[AnyStep]:
    """Build the model for the targets; those with a time are measured."""
    layout, steps = Layout(root), cell_steps("net", targets[0].name)[:1]
    for target in targets:
        steps += cell_steps("net", target.name)[1:]
        write_built_for(layout, "net", target)
        if target.name in ms:
            write_result(layout, "net", target.name, ms[target.name])
    return steps


def test_an_int8_cell_stands_beside_the_float_one_of_its_hardware(tmp_path: Path) -> None:
    steps = build(tmp_path, V3, V4, VNNI, v3=1.5, v4=2.0, vnni=0.5)
    judged = replace(make_result("net@vnni", 0.5), accuracy=AGREEMENT)
    write_json(Layout(tmp_path).cell_file("net", "vnni", "result.json"), judged.to_json())
    cells = collect_cells(tmp_path, steps)
    (row,) = list_precisions(cells)
    told = dict(zip(COLUMNS, row, strict=True))
    assert (told["cell"], told["precision"], told["beside"]) == ("net@vnni", "int8", "v4")
    assert (told["ms"], told["fp32 ms"], told["time"]) == ("0.500", "2.00", "0.25x")
    assert (told["package"], told["fp32 package"], told["size"]) == SIZES
    assert (told["top-1"], told["rms"]) == ("19 of 20", "0.41%")
    write_report(tmp_path, steps)
    layout = Layout(tmp_path)
    assert f"## {TITLE}\n\n| cell | precision | beside |" in layout.report_markdown.read_text()
    assert f"<h2>{TITLE}</h2>" in layout.report_html.read_text()
    assert "<td>19 of 20</td><td>0.41%</td>" in layout.report_html.read_text()
    line = "net@vnni (int8): 0.25x the time and 0.27x the size of v4, same top-1 for 19 of 20, rms 0.41%"
    assert line in " ".join(shown(tmp_path, steps, 200).split())


def test_else_it_stands_beside_the_fastest_float_one_of_the_machine(tmp_path: Path) -> None:
    steps = build(tmp_path, V3, make_target("v2", mcpu="x86-64-v2"), HALF, v3=1.5, v2=2.0, half=1.0)
    (pair,) = list_pairs(collect_cells(tmp_path, steps))
    assert pair.beside is not None
    assert (pair.beside.target, pair.precision) == ("v3", "fp16")


def test_times_of_two_machines_or_of_other_threads_are_no_ratio(tmp_path: Path) -> None:
    steps = build(tmp_path, V4, V3, VNNI, v4=2.0, v3=1.5, vnni=0.5)
    path = Layout(tmp_path).cell_file("net", "vnni", "result.json")
    for change in ({"machine": MachineState("Another CPU", 2)}, {"threads": 1}):
        write_json(path, replace(make_result("net@vnni", 0.5), **change).to_json())
        (pair,) = list_pairs(collect_cells(tmp_path, steps))
        assert pair.beside is not None
        assert (pair.beside.target, pair.time) == ("v4", None)
        assert pair.size == pytest.approx(0.25, rel=0.1)


def test_cells_that_are_not_measured_have_sizes(tmp_path: Path) -> None:
    pi, pi8 = make_target("pi", mcpu="cortex-a76"), make_target("pi8", "int8", mcpu="cortex-a76", mattr=("+dotprod",))
    steps = build(tmp_path, pi, pi8)
    (row,) = list_precisions(collect_cells(tmp_path, steps))
    assert row[:6] == ("net@pi8", "int8", "pi", "-", "-", "-")
    assert row[6:] == (*SIZES, "-", "-", "-", "-", "-")
    assert "net@pi8 (int8): 0.27x the size of pi" in shown(tmp_path, steps, 120)


def test_the_fastest_cell_that_keeps_its_thresholds_is_recommended(tmp_path: Path) -> None:
    steps, layout = build(tmp_path, V4, V3, VNNI, HALF, v4=2.0, v3=3.0, vnni=0.5, half=1.0), Layout(tmp_path)
    drops = {"v4": 0.0, "v3": 0.0, "vnni": 0.04, "half": 0.001}
    for name, drop in drops.items():
        ms = {"v4": 2.0, "v3": 3.0, "vnni": 0.5, "half": 1.0}[name]
        agreement = replace(AGREEMENT, metric=0.9 - drop, metric_original=0.9)
        write_json(
            layout.cell_file("net", name, "result.json"),
            replace(make_result(f"net@{name}", ms), accuracy=agreement).to_json(),
        )
    (line,) = describe_fronts(collect_cells(tmp_path, steps))
    assert line.startswith(
        "net: vnni is recommended; no other cell beats in time, accuracy and size: vnni (int8, 0.500 ms"
    )
    assert "half (fp16, 1.00 ms, metric 0.001 lower, " in line
    assert "v4 (fp32, 2.00 ms, metric 0 lower, " in line
    assert "v3" not in line
    write_json(layout.failure("benchmark:net@vnni"), FAR)
    assert describe_fronts(collect_cells(tmp_path, steps))[0].startswith("net: half is recommended; ")
    write_report(tmp_path, steps)
    assert "net: half is recommended" in layout.report_html.read_text()
    assert "- net: half is recommended" in layout.report_markdown.read_text()
    told = " ".join(shown(tmp_path, steps, 400).split())
    assert "rms 0.41%, metric 0.86 of 0.9" in told
    assert "net: half is recommended" in told


@pytest.mark.parametrize(
    ("asked", "told", "best"),
    [
        (Accuracy("inputs", (), top1=0.9), ["top-1 differs for 5.0%", "top-1 differs for 0.0%"], "half"),
        (Accuracy("inputs", (), of_largest=0.1), ["largest error 1.00%", "largest error 9.00%"], "vnni"),
        (Accuracy("inputs", (), of_largest=0.1, rms=0.1), ["rms 3.00%", "rms 2.00%"], "half"),
    ],
)
def test_cells_are_compared_by_the_figure_with_a_threshold(
    tmp_path: Path, asked: Accuracy, told: list[str], best: str
) -> None:
    """The cell that loses less by this figure beats the other one of the same time and size."""
    steps, layout = build(tmp_path, VNNI, HALF, vnni=1.0, half=1.0), Layout(tmp_path)
    figures = {"vnni": (19, 0.01, 0.03), "half": (20, 0.09, 0.02)}
    for name, (agreeing, of_largest, rms) in figures.items():
        found = replace(AGREEMENT, agreeing=agreeing, of_largest=of_largest, rms=rms)
        judged = replace(make_result(f"net@{name}", 1.0), accuracy=found)
        write_json(layout.cell_file("net", name, "result.json"), judged.to_json())
    of_cells = [replace(each, options=replace(CELL_OPTIONS, accuracy=asked)) for each in steps if "@" in each.subject]
    (front,) = list_fronts([replace(cell, package_bytes=1000) for cell in collect_cells(tmp_path, of_cells)])
    assert [point.loss.told for point in front.points] == told
    assert [point.cell.target for point in front.unbeaten] == [best]


def test_the_front_is_drawn_with_a_ring_around_the_recommended_cell(tmp_path: Path) -> None:
    steps, layout = build(tmp_path, V4, V3, VNNI, v4=2.0, v3=3.0, vnni=0.5), Layout(tmp_path)
    for name, ms, rms in (("v4", 2.0, 1e-7), ("v3", 3.0, 1e-7), ("vnni", 0.5, 0.02)):
        judged = replace(make_result(f"net@{name}", ms), accuracy=replace(AGREEMENT, rms=rms))
        write_json(layout.cell_file("net", name, "result.json"), judged.to_json())
    (front,) = list_fronts(collect_cells(tmp_path, steps))
    assert [point.cell.target for point in front.unbeaten] == ["vnni", "v4"]
    chart = draw_front(front)
    assert (chart.count('class="dot"'), chart.count('class="dot pale"'), chart.count('class="roof"')) == (2, 1, 1)
    dots = re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', chart)
    vnni, ring, v4, v3 = ([float(each) for each in dot] for dot in dots)
    assert vnni[:2] == ring[:2]
    assert vnni[0] < v4[0] < v3[0]
    assert vnni[1] < v4[1] == v3[1]  # the SVG's y grows downwards
    assert vnni[2] < v4[2]
    assert "recommended: vnni; vnni (int8, 0.500 ms, rms 2.00%, " in chart
    write_report(tmp_path, steps)
    assert "the ring marks the recommended cell, vnni (0.500 ms" in layout.report_html.read_text()


def test_energy_counts_if_it_is_known_of_all_cells(tmp_path: Path) -> None:
    """The float cell is slower, larger and no better, but takes less energy for a frame."""
    steps, layout = build(tmp_path, V4, VNNI, v4=2.0, vnni=0.5), Layout(tmp_path)

    def write(name: str, ms: float, joules: float | None) -> None:
        framed = make_framed()
        assert framed.times is not None
        framed = replace(framed, times=replace(framed.times, joules=joules))
        result = replace(make_result(f"net@{name}", ms), accuracy=AGREEMENT, frames=framed)
        write_json(layout.cell_file("net", name, "result.json"), result.to_json())

    def find() -> tuple[list[str], str]:
        (front,) = list_fronts(collect_cells(tmp_path, steps))
        return [point.cell.target for point in front.unbeaten], front.describe()

    write("vnni", 0.5, 0.02)
    write("v4", 2.0, None)
    unbeaten, told = find()
    assert unbeaten == ["vnni"]
    assert "no other cell beats in time, accuracy and size: vnni (int8, 0.500 ms, rms 0.41%, 113 kB, 0.02 J)" in told
    write("v4", 2.0, 0.01234)
    unbeaten, told = find()
    assert unbeaten == ["vnni", "v4"]
    assert "no other cell beats in time, accuracy, size and energy: " in told
    (row,) = list_precisions(collect_cells(tmp_path, steps))
    shares = dict(zip(COLUMNS, row, strict=True))
    assert (shares["J"], shares["fp32 J"]) == ("0.02", "0.0123")
    write_report(tmp_path, steps)
    assert "420 kB, 0.0123 J)" in layout.report_html.read_text()
    assert "rms 0.41%, 0.02 J a frame" in " ".join(shown(tmp_path, steps, 400).split())


def test_operators_in_floats_have_a_cost(tmp_path: Path) -> None:
    steps, layout = build(tmp_path, V4, HALF, v4=2.0, half=1.1), Layout(tmp_path)
    steps.append(Step("keep", "net@half", KeepStep("net", "fp16", Keep(search=True)), root=tmp_path))
    group = {"name": "conv", "nodes": ["conv", "relu"], "harm": 0.7, "cost": 0.1}
    write_json(layout.cell_file("net", "half", "kept.json"), {"nodes": [], "kept": {"groups": [group]}, "notes": []})
    cells = collect_cells(tmp_path, steps)
    assert list_kept(cells) == [("net@half", "conv", "conv, relu", "70%", "10%", "0.100")]  # 0.9 of it saves 0.9 ms
    assert describe_kept(cells) == [
        "net@half: conv (conv, relu): 10% of the saved time, 70% of the harm, about 0.100 ms"
    ]
    write_report(tmp_path, steps)
    assert f"<h2>{KEPT}</h2>" in layout.report_html.read_text()
    assert "| net@half | conv | conv, relu | 70% | 10% | 0.100 |" in layout.report_markdown.read_text().replace(":", "")


def test_one_precision_alone_has_nothing_beside_it(tmp_path: Path) -> None:
    assert list_pairs(collect_cells(tmp_path, build(tmp_path, V3, V4, v3=1.0))) == []
    (pair,) = list_pairs(collect_cells(tmp_path / "b", build(tmp_path / "b", VNNI, vnni=1.0)))
    assert (pair.beside, pair.time, pair.size) == (None, None, None)


def test_a_cell_that_is_too_far_from_the_original_keeps_its_figures(tmp_path: Path) -> None:
    steps, layout = build(tmp_path, VNNI, vnni=0.5), Layout(tmp_path)
    judged = replace(make_result("net@vnni", 0.5), accuracy=AGREEMENT)
    write_json(layout.cell_file("net", "vnni", "result.json"), judged.to_json())
    write_json(layout.failure("benchmark:net@vnni"), FAR)
    cell = only(tmp_path, steps)
    assert (cell.status, cell.result, cell.accuracy) == ("failed", judged, AGREEMENT)
    write_json(layout.failure("benchmark:net@vnni"), FAR | {"kept": False})
    cell = only(tmp_path, steps)
    assert (cell.status, cell.result, cell.accuracy) == ("failed", None, None)
    layout.failure("benchmark:net@vnni").unlink()
    write_json(layout.failure("tune:net@vnni"), FAR)
    assert only(tmp_path, steps).result is None


def test_a_cell_that_was_computed_here_has_figures_too(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), build(tmp_path, VNNI)[:-1]
    steps.append(Step("validate", "net@vnni", steps[-1].options))
    write_json(layout.cell_file("net", "vnni", "validated.json"), Validated(1e-6, 1e-6, accuracy=AGREEMENT).to_json())
    assert (only(tmp_path, steps).status, only(tmp_path, steps).accuracy) == ("built", AGREEMENT)
    write_report(tmp_path, steps)
    assert "net@vnni: same top-1 for 19 of 20 (95.0%)" in layout.report_markdown.read_text()
    write_json(layout.failure("validate:net@vnni"), FAR)
    assert (only(tmp_path, steps).status, only(tmp_path, steps).accuracy) == ("failed", AGREEMENT)
    write_json(layout.failure("validate:net@vnni"), FAR | {"kept": False})
    assert only(tmp_path, steps).accuracy is None
    write_json(layout.cell_file("net", "vnni", "validated.json"), {"format": 1, "accuracy": 3})
    assert Validated.from_json({"format": 1, "max_abs_error": 1.0, "max_rel_error": 1.0, "accuracy": 3}) is None
