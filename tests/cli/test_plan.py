"""The command `tvmbuild plan` on a project that looks finished: exact lines, exact JSON, and nothing written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doit_project import DoitProject
from finished_project import CONV, POOL, SHARED, TASKS, put, task_file, tune_options, write_finished_project
from report_cells import write_built

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.cli import main
from tvmbuild.records.store import record_path
from tvmbuild.tuning.rates import Spent, add_rates

ONE_OF_THREE = {
    "tasks": 3,
    "covered": 2,
    "to_tune": 1,
    "trials": 64,
    "seconds": 128.0,
    "seconds_range": [85.3, 192.0],
}
NO_MINUTES = {"seconds": 0.0, "seconds_range": [0.0, 0.0]}
NOT_KNOWN = {"seconds": None, "seconds_range": None}
CONV_TASK, SHARED_TASK, POOL_TASK = TASKS["first"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoitProject:
    made = write_finished_project(tmp_path)
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("COLUMNS", "200")
    add_rates(Layout(made.root), tune_options(made), {"conv2d": Spent(1000, 2000.0), "max": Spent(1000, 2000.0)})
    return made


def _show(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["plan", *words]) == 0
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def _read(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["plan", "--json", *words]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def _forget_records(project: DoitProject) -> None:
    for path in Layout(project.root).records("v3").iterdir():
        path.unlink()


def _snapshot(root: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("project")
def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _show(capsys)
    assert lines[0] == "up to date   simplify:first"
    assert lines[-1] == "Plan: 0 steps to run, 3 cells, 0 of 6 Tasks to tune"


def test_the_price_of_two_tasks(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    options = tune_options(project)
    put(project, task_file(CONV_TASK, options, [2e-6], searched=16))
    put(project, task_file(SHARED_TASK, options, [2e-6], searched=60))
    lines = _show(capsys, "*@v3")
    lacks = "2 of 3 Tasks not fully searched: conv2d_add_relu, conv2d_add"
    assert lines == [
        "up to date   simplify:first",
        "up to date   simplify:second",
        f"would run    tune:first@v3        {lacks}",
        "would run    tune:second@v3       1 of 1 Task not fully searched: conv2d_add",
        "may run      compile:first@v3     if tune:first@v3 changes what it reads",
        "may run      compile:second@v3    if tune:second@v3 changes what it reads",
        "may run      benchmark:first@v3   if compile:first@v3 changes what it reads",
        "may run      benchmark:second@v3  if compile:second@v3 changes what it reads",
        "",
        "tuning",
        "",
        " cell        tasks   covered   to tune   trials      minutes",
        " ───────────────────────────────────────────────────────────",
        " first@v3        3         3         2       52   1.2 to 2.6",
        " second@v3       1         1         0        0            0",
        "",
        "Plan: 2 steps to run and 4 that may follow, 2 cells, 2 of 3 Tasks to tune, 52 trials, 1 to 3 min",
    ]


def test_what_was_searched_before_a_rule_changed(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    options = tune_options(project)
    put(project, replace(task_file(CONV_TASK, options, [2e-6]), rules=FrozenMap()))
    lines = _show(capsys, "*@v3")
    assert "would run    tune:first@v3        1 of 3 Tasks searched before a rule changed" in lines
    assert "1 Task searched before a rule changed: at most 4 candidates each" in lines
    assert lines[-1].endswith("2 cells, 1 of 3 Tasks to tune, 4 trials, 5 to 12 s")
    assert _read(capsys, "*@v3")["cells"][0]["lagging"] == 1
    assert main(["explain", "tune:first@v3"]) == 0
    assert f"  conv2d_add_relu ({CONV}): 4 trials, 5 to 12 s, what newer rules would do" in capsys.readouterr().out
    put(project, replace(task_file(CONV_TASK, options, [2e-6]), rules=FrozenMap(), searched=FrozenMap({"other": 64})))
    assert _read(capsys, "*@v3")["cells"][0]["lagging"] == 0


def test_json(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    record_path(Layout(project.root).records("v3"), CONV).unlink()
    value = _read(capsys, "tune:*@v3", "benchmark:second@v3")
    assert sorted(value) == ["cells", "format", "matrix", "steps", "total"]
    assert value["format"] == 1
    assert value["steps"][2] == {
        "id": "tune:first@v3",
        "stage": "tune",
        "subject": "first@v3",
        "state": "would run",
        "reasons": [f"other records win now: conv2d_add_relu ({CONV}): a record that no longer applies -> no record"],
    }
    assert [step["id"] for step in value["steps"]] == [
        "simplify:first",
        "simplify:second",
        "tune:first@v3",
        "tune:second@v3",
        "compile:second@v3",
        "benchmark:second@v3",
    ]
    first = {"cell": "first@v3", "model": "first", "target": "v3"}
    second = {"cell": "second@v3", "model": "second", "target": "v3"}
    assert value["cells"] == [
        first | ONE_OF_THREE | {"lagging": 0, "memory": None, "memory_limit": None},
        second
        | {
            "tasks": 1,
            "covered": 1,
            "to_tune": 0,
            "trials": 0,
            "lagging": 0,
            "memory": None,
            "memory_limit": None,
            **NO_MINUTES,
        },
    ]
    assert value["total"] == ONE_OF_THREE
    assert value["matrix"] == {"include": [first, second]}


def test_a_built_cell_has_its_memory(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    write_built(Layout(project.root), "first", "v3")
    built = next(each for each in _read(capsys)["cells"] if each["cell"] == "first@v3")
    assert built["memory"] == {"weights": 400_000, "workspace": None, "scratch": None, "code": 7000}
    assert built["memory_limit"] is None
    assert main(["plan"]) == 0
    told = capsys.readouterr().out
    assert "first@v3 takes 407 kB of memory: weights 400 kB, code 7 kB, workspace unknown" in told
    assert "second@v3 takes" not in told
    assert "more than the allowed" not in told


def test_a_package_beyond_a_new_limit_is_told(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    write_built(Layout(project.root), "first", "v3")
    project.edit("targets.yaml", "defaults: {", "defaults: {memory: 300 kB, ")
    built = next(each for each in _read(capsys)["cells"] if each["cell"] == "first@v3")
    assert built["memory_limit"] == 300_000
    assert main(["plan"]) == 0
    told = capsys.readouterr().out
    assert "the package of first@v3 takes more than the allowed 300 kB; the largest arrays are unknown" in told


def test_json_says_null_for_what_is_not_known(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.edit("targets.yaml", "x86-64-v3", "haswell")
    unknown = {"tasks": None, "covered": None, "to_tune": None, "trials": None, **NOT_KNOWN}
    value = _read(capsys, "tune:*")
    assert [{name: cell[name] for name in unknown} for cell in value["cells"][1:]] == [unknown, unknown]
    assert value["total"] == {
        "tasks": None,
        "covered": 0,
        "to_tune": 0,
        "trials": 0,
        "seconds": None,
        "seconds_range": None,
    }
    lines = _show(capsys, "tune:*")
    assert " first@v2        3         0         0        0         0" in lines
    assert " first@v3        ?         ?         ?        ?         ?" in lines
    assert "?: Tasks are not known before simplify and tune have run" in lines
    assert lines[-1].endswith("3 cells, 0 of 3 Tasks to tune and those of 2 cells not known yet")
    value = _read(capsys, "tune:*", "tune=never")
    assert value["cells"][1]["tasks"] is None
    assert value["total"]["seconds"] == 0.0


def test_a_changed_model_hides_its_tasks(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    (project.root / "digits.onnx").write_bytes(b"another model")
    assert (
        _show(capsys, "tune:second@v3")[-1] == "Plan: 1 step to run and 1 that may follow, 1 cell, Tasks not known yet"
    )
    assert _show(capsys, "simplify:*")[-1] == "Plan: 2 steps to run"


def test_before_the_first_search_the_time_is_a_usual_machines(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    _forget_records(project)
    Layout(project.root).tuning_rates.unlink()
    low, high = _read(capsys)["total"]["seconds_range"]
    assert 0 < low < high


def test_the_matrix_leaves_out_what_cannot_run(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    with (project.root / "targets.yaml").open("a") as stream:
        stream.write("  own: {kind: llvm, mcpu: native, num-cores: 1}\n")  # not resolved yet
    value = _read(capsys)
    assert "compile:first@own" in {step["id"] for step in value["steps"] if step["state"] == "unavailable"}
    assert [cell["cell"] for cell in value["matrix"]["include"]] == ["first@v2", "first@v3", "second@v3"]
    own = next(cell for cell in value["cells"] if cell["cell"] == "first@own")
    assert (own["tasks"], own["to_tune"], own["seconds"]) == (None, 0, 0.0)


def test_the_matrix_leaves_out_what_cannot_be_compiled(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    with (project.root / "targets.yaml").open("a") as stream:
        stream.write(
            "  other: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, link: no-such-compiler}\n"
        )
    value = _read(capsys)
    states = {step["id"]: step["state"] for step in value["steps"]}
    assert (states["tune:first@other"], states["compile:first@other"]) == ("would run", "unavailable")
    assert [cell["cell"] for cell in value["matrix"]["include"]] == ["first@v2", "first@v3", "second@v3"]


def test_full_searches_all_and_never_none(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    assert _show(capsys, "tune=full", "tune:first@v3")[-1].endswith("3 of 3 Tasks to tune, 192 trials, 4 to 10 min")
    _forget_records(project)
    assert _show(capsys, "tune=never", "tune:first@v3")[-1].endswith("1 step to run, 1 cell, 0 of 3 Tasks to tune")


def test_a_damaged_record_counts_as_none(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    record_path(Layout(project.root).records("v3"), POOL).write_text("{")
    value = _read(capsys, "tune:first@v3")
    assert value["total"] == ONE_OF_THREE
    assert value["steps"][-1]["state"] == "would run"


@pytest.mark.parametrize("words", [[], ["--json"], ["tune=full", "strict=1"]])
def test_nothing_is_written(project: DoitProject, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    (project.root / "digits.onnx").write_bytes(b"another model")
    record_path(Layout(project.root).records("v3"), SHARED).unlink()
    before = _snapshot(project.root)
    _show(capsys, *words)
    assert _snapshot(project.root) == before


def test_json_of_a_project_that_never_ran(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    ran = project.tvmbuild("clean")
    assert ran.code == 0, ran.output
    value = _read(capsys)
    assert {step["state"] for step in value["steps"]} == {"would run"}
    assert value["total"]["tasks"] is None
    assert len(value["matrix"]["include"]) == 3
