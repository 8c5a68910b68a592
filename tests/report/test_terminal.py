from __future__ import annotations

import io
from dataclasses import replace

import pytest
from made_matrix import make_matrix, make_timed
from rich.console import Console

from tvmbuild.base.cpu_features import X86_LEVELS
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.report import unused
from tvmbuild.report.cells import CellReport, Failure
from tvmbuild.report.terminal import print_matrix


def show(cells: list[CellReport], width: int = 120, *, long: bool = False) -> str:
    file = io.StringIO()
    print_matrix(Console(file=file, width=width, color_system=None), cells, long=long)
    return file.getvalue()


def test_the_matrix_is_a_grid_where_it_fits() -> None:
    cells = make_matrix(3, 5)
    lines = show(cells).splitlines()
    assert lines[1].split() == ["model", "x86-64-v3", "x86-64-v4", "pi4", "h200", "nuc-vulkan"]
    assert "mobilenet_v2  ▲ 0.200 0.67x  □ built" in lines[3]
    assert "resnet50      ✗ failed       ▼ 0.680 1.33x" in lines[4]
    assert " status " in show(cells, 60)
    assert " status " in show(cells, long=True)
    assert " status " in show(make_matrix(20, 10))
    assert " status " not in show(make_matrix(20, 10), 200)


def test_one_cell_is_a_row_with_all_columns() -> None:
    assert " status " in show([make_timed("net", "cpu")])


def test_a_reason_is_a_line_with_its_remedy() -> None:
    failure = Failure("tune:a@x", "it crashed\n  | a long\n  | tail", "free\nmemory", None, kept=False)
    cells = [CellReport("a", "x", "failed", "it crashed", failure)]
    cells += [CellReport(model, "gpu", "unavailable", f"no card: {'w' * 200}; nvidia-smi says why") for model in "ab"]
    lines = show(cells, 80).splitlines()
    assert "tune:a@x failed: it crashed; free memory" in lines
    assert f"gpu (a, b): no card: {'w' * 200}; nvidia-smi says why" in lines


def test_the_legend_is_one_line_whose_command_can_be_copied() -> None:
    lines = show([make_timed("fast", "cpu"), make_timed("slow", "cpu", (3.0, 2.0))], 60).splitlines()
    says = "median ms and TVM's time over ONNX Runtime's; ▲ faster, ▼ slower; all columns: tvmbuild report -v"
    assert says in lines


def test_slower_packages_for_an_older_cpu_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(model: str, mcpu: str, times_ms: tuple[float, float]) -> CellReport:
        cell = make_timed(model, mcpu, times_ms)
        target = PackageTarget(mcpu, "llvm", FrozenMap({"mcpu": mcpu}))
        return replace(cell, built_for=replace(target, flags=flags[mcpu]))

    levels = {name: tuple(sorted(level)) for name, level in X86_LEVELS.items()}
    flags = {"haswell": levels["x86-64-v3"], "x86-64-v4": levels["x86-64-v4"], "x86-64-v3": None}
    cells = [build("fast", "haswell", (2.0, 3.0)), build("new", "x86-64-v4", (3.0, 2.0))]
    cells += [build("old", "x86-64-v3", (3.0, 2.0))]
    cells += [build(name, "haswell", (3.0, 2.0)) for name in ("slow", "slower")]
    assert cells[0].result is not None
    monkeypatch.setattr(unused, "cpu_name", lambda: cells[0].result.machine.cpu)
    monkeypatch.setattr(unused, "cpu_flags", lambda: X86_LEVELS["x86-64-v4"] | {"amx_tile"})
    says = "ONNX Runtime used what this CPU has beyond haswell; a target with `mcpu: x86-64-v4` may use it, too"
    assert list(unused.list_unused(cells)) == [f"haswell (slow, slower): {says}"]
    assert says in show(cells)
    monkeypatch.setattr(unused, "cpu_flags", lambda: X86_LEVELS["x86-64-v3"])
    assert list(unused.list_unused(cells)) == []
    monkeypatch.setattr(unused, "cpu_flags", lambda: X86_LEVELS["x86-64-v4"])
    monkeypatch.setattr(unused, "cpu_name", lambda: "another CPU")
    assert list(unused.list_unused(cells)) == []


def test_of_many_names_some_are_told() -> None:
    cells = [CellReport(f"m{index}", "gpu", "unavailable", "no card") for index in range(9)]
    assert "gpu (m0, m1, m2, m3, m4 and 4 more): no card" in show(cells)
    assert "gpu (m0, m1, m2, m3, m4, m5): no card" in show(cells[:6])


def test_colours_mean_one_thing_each_and_can_be_had_without(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = make_matrix(3, 5)

    def colour() -> str:
        file = io.StringIO()
        print_matrix(Console(file=file, width=120, force_terminal=True, color_system="standard"), cells)
        return file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m▲ 0.200 0.67x" in colour()
    assert "\x1b[33m▼ 0.680 1.33x" in colour()
    assert "\x1b[31m✗ failed" in colour()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not [code for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m") if code in colour()]
    assert "\x1b[" not in show(cells)
