"""The meanings of doit's own commands are the same as in doit."""

from __future__ import annotations

from pathlib import Path

import pytest
from doit_project import ON_V3, QUICK, STEPS_ON_V3, DoitProject, write_project

pytestmark = QUICK


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool) -> DoitProject:
    project = write_project(tmp_path_factory.mktemp("built"), digits, ON_V3, quick=quick)
    ran = project.doit("-n", "2", "tune=never")
    assert sorted(ran.steps) == sorted(STEPS_ON_V3), ran.output
    return project


def _outputs(project: DoitProject) -> list[str]:
    build = project.root / "build"
    return sorted(
        str(path.relative_to(build)) for folder in ("cells", "models") for path in (build / folder).rglob("*")
    )


def test_list_shows_what_is_up_to_date(project: DoitProject) -> None:
    lines = project.doit("list", "--all", "-s", "tune=never").output.splitlines()
    rows = {line.split()[1]: line.split()[0] for line in lines}
    assert {rows[step] for step in STEPS_ON_V3} == {"U"}
    (project.root / "build/cells/digits@v3/result.json").unlink()
    assert "R benchmark:digits@v3" in project.doit("list", "--all", "-s", "tune=never").output


def test_info_says_what_changed_from_what_to_what(project: DoitProject) -> None:
    info = ("info", "benchmark:digits@v3", "tune=never")
    assert "status     : up-to-date" in project.doit(*info).output
    project.edit("models.yaml", "targets: {", "tolerance: {atol: 0.5}\n    targets: {")
    assert "option.tolerance.atol: 0.001 -> 0.5" in project.doit(*info).output
    (project.root / "build/models/digits/model.onnx").write_bytes(b"other")
    output = project.doit(*info).output
    assert "input model changed: sha256 " in output
    (project.root / "build/cells/digits@v3/result.json").unlink()
    assert "output result is missing" in project.doit(*info).output


def test_forget_runs_the_step_again(project: DoitProject) -> None:
    assert project.doit("forget", "compile:digits@v3").code == 0
    assert "it has never finished" in project.doit("info", "compile:digits@v3").output
    ran = project.doit("tune=never")
    assert ran.steps == ["compile:digits@v3"]
    says = "packages: build/cells/MODEL@TARGET/MODEL-TARGET.tar; report: build/report.html"
    assert says in ran.output.splitlines()
    assert "packages: " not in project.doit("tune=never").output  # nothing was done


def test_forget_of_a_stage_and_of_all(project: DoitProject) -> None:
    project.doit("forget", "compile", "benchmark")
    assert project.doit("tune=never").steps == ["compile:digits@v3", "benchmark:digits@v3"]
    project.doit("forget", "--all")
    assert list((project.root / "build/.state").iterdir()) == []


def test_ignore_leaves_a_step_and_what_needs_it_out(project: DoitProject) -> None:
    assert project.doit("ignore", "compile:digits@v3").code == 0
    (project.root / "build/cells/digits@v3/digits-v3.tar").unlink()
    ran = project.doit("tune=never")
    assert ran.code == 0
    assert ran.steps == []
    assert "-- compile:digits@v3  ignored" in ran.output
    project.doit("forget", "compile:digits@v3")
    assert project.doit("tune=never").steps == ["compile:digits@v3"]


def test_clean_removes_outputs_and_no_record(project: DoitProject) -> None:
    record = project.root / "records/v3/0123456789abcdef.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert project.doit("clean", "--dry-run").code == 0
    assert "cells/digits@v3/digits-v3.tar" in _outputs(project)
    output = project.doit("clean").output
    assert "compile:digits@v3 - removing file 'build/cells/digits@v3/digits-v3.tar'" in output
    assert [path for path in (project.root / "build").rglob("*") if path.suffix in {".tar", ".onnx", ".npz"}] == []
    assert record.exists()
    record.unlink()
    assert project.doit("tune=never").steps == STEPS_ON_V3


def test_clean_of_one_step(project: DoitProject) -> None:
    project.doit("clean", "compile:digits@v3")
    assert "cells/digits@v3/digits-v3.tar" not in _outputs(project)
    assert "cells/digits@v3/schedule.json" in _outputs(project)
    assert project.doit("tune=never").steps == ["compile:digits@v3"]


def test_always_runs_what_is_up_to_date(project: DoitProject) -> None:
    assert project.doit("-a", "benchmark:digits@v3", "tune=never").steps == STEPS_ON_V3


def test_groups_globs_and_outputs_select_steps(project: DoitProject) -> None:
    project.doit("forget", "--all")
    assert project.doit("simplify", "tune=never").steps == STEPS_ON_V3[:1]
    assert project.doit("compile:*@v3", "tune=never").steps == STEPS_ON_V3[1:3]
    assert project.doit("build/cells/digits@v3/result.json", "tune=never").steps == STEPS_ON_V3[3:]


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_two_at_once(project: DoitProject, kind: str) -> None:
    project.edit("models.yaml", "    targets: {include: [v3]}\n", "")
    ran = project.doit("-n", "2", "-P", kind, "tune=never")
    assert ran.code == 0, ran.output
    assert ran.steps == ["tune:digits@v2", "compile:digits@v2", "benchmark:digits@v2"]
    assert project.doit("-n", "2", "-P", kind, "tune=never").steps == []


def test_report_alone_needs_no_cell(project: DoitProject) -> None:
    project.doit("forget", "--all")
    report = project.root / "build/report.md"
    report.unlink()
    ran = project.doit("report", "tune=never")
    assert (ran.code, ran.steps) == (0, [])
    assert "digits" in report.read_text()


def test_json_reporter_still_works(project: DoitProject) -> None:
    ran = project.doit("run", "-r", "json", "tune=never")
    assert ran.code == 0
    assert '"result": "up-to-date"' in ran.output


def test_a_step_that_has_become_unavailable_has_not_run(project: DoitProject) -> None:
    project.edit("targets.yaml", "mcpu: x86-64-v3,", "mcpu: x86-64-v3, device: none,")
    ran = project.doit("benchmark:digits@v3")
    assert (ran.code, ran.steps) == (0, []), ran.output
    assert "0 done, 0 up to date, 1 unavailable here" in ran.output
