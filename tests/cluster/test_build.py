"""The same project here and on a cluster of processes; with the real compiler once a day."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from dask_cluster import DaskCluster, list_workers
from doit_project import DoitProject, Ran, write_project
from warm_cache import read_outputs

pytestmark = pytest.mark.timeout(900)

TARGETS = """\
defaults:
  device: local
  tune: {trials_per_task: 2, ops: ["conv2d_add_relu"], number: 1, repeat: 1, min_repeat_ms: 1}
  benchmark: {repeat: 3}
targets:
  v2: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, tune: {ops: []}}
  v3: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 1}
"""
TWINS = """\
models:
  digits: {source: {path: digits.onnx}, targets: {include: [v3]}}
  numerals: {source: {path: digits.onnx}, targets: {include: [v3]}}
"""
STEPS = [f"{stage}:digits@{target}" for stage in ("benchmark", "compile", "tune") for target in ("v2", "v3")]


def build(project: DoitProject, cluster: DaskCluster, *arguments: str, **extra: str) -> Ran:
    return project.tvmbuild("build", "--scheduler", cluster.address, *arguments, **extra)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool) -> DoitProject:
    """A project that one machine has tuned and built."""
    project = write_project(tmp_path_factory.mktemp("local"), digits, targets=TARGETS, quick=quick)
    ran = project.doit()
    assert ran.code == 0, ran.output
    return project


@pytest.fixture(scope="module")
def distributed(
    local: DoitProject, cluster: DaskCluster, tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool
) -> tuple[DoitProject, Ran]:
    """The same project, with the same records, that a cluster has built."""
    folder = tmp_path_factory.mktemp("distributed")
    project = write_project(folder, digits, targets=TARGETS, quick=quick)
    shutil.copytree(local.root / "records", project.root / "records")
    return project, build(project, cluster)


def test_packages_are_those_of_a_local_run(local: DoitProject, distributed: tuple[DoitProject, Ran]) -> None:
    project, ran = distributed
    assert ran.code == 0, ran.output
    assert sorted(ran.steps) == sorted([*STEPS, "simplify:digits"])
    assert sorted(list_workers(ran)) == sorted(ran.steps)
    ours, theirs = read_outputs(local), read_outputs(project)
    measured = {name for name in ours if name.endswith(("result.json", "tune.json"))}
    assert ours.keys() == theirs.keys()
    assert len([name for name in ours if name.endswith(".tar")]) == 2
    assert {name: ours[name] for name in ours.keys() - measured} == {
        name: theirs[name] for name in theirs.keys() - measured
    }


def test_both_workers_had_steps(distributed: tuple[DoitProject, Ran]) -> None:
    workers = list_workers(distributed[1])
    assert workers["compile:digits@v2"] != workers["compile:digits@v3"], distributed[1].output


def test_state_is_true_and_logs_and_history_are_home(distributed: tuple[DoitProject, Ran]) -> None:
    project, _ = distributed
    for tool in (project.doit, project.tvmbuild):
        again = tool()
        assert (again.code, again.steps) == (0, []), again.output
        assert "7 up to date" in again.output
    lines = map(json.loads, (project.root / "build/history.jsonl").read_text().splitlines())
    # Only v3 has records.
    assert sorted((line["cell"], bool(line["schedules"])) for line in lines) == [
        ("digits@v2", False),
        ("digits@v3", True),
    ]
    assert (project.root / "build/logs/compile.digits@v3.log").read_text()
    assert project.temporaries() == []


def test_only_what_is_stale_runs(distributed: tuple[DoitProject, Ran], cluster: DaskCluster, tmp_path: Path) -> None:
    project = distributed[0].copy(tmp_path)
    again = build(project, cluster)
    assert (again.code, again.steps) == (0, []), again.output
    (project.root / "build/cells/digits@v3/digits-v3.tar").unlink()
    again = build(project, cluster)
    assert (again.code, again.steps) == (0, ["compile:digits@v3"]), again.output
    project.edit("models.yaml", "atol: 1e-3", "atol: 2e-3")
    again = build(project, cluster, "benchmark:*@v2")
    assert (again.code, again.steps) == (0, ["benchmark:digits@v2"]), again.output


def test_cells_that_share_tasks_are_tuned_at_once_and_all_is_up_to_date(
    cluster: DaskCluster, tmp_path: Path, digits: Path, quick: bool
) -> None:
    project = write_project(tmp_path, digits, TWINS, TARGETS, quick=quick)
    ran = build(project, cluster)
    assert ran.code == 0, ran.output
    workers = list_workers(ran)
    assert {"tune:digits@v3", "tune:numerals@v3"} <= workers.keys()
    files = [json.loads(path.read_text()) for path in (project.root / "records/v3").glob("*.json")]
    assert [list(file["searched"].values()) for file in files] == [[2]] * len(files) != []
    schedules = [
        (project.root / f"build/cells/{model}@v3/schedule.json").read_bytes() for model in ("digits", "numerals")
    ]
    assert schedules[0] == schedules[1]
    again = project.doit()
    assert (again.code, again.steps) == (0, []), again.output
    assert not list((project.root / "build/journal").rglob("*.jsonl"))


def test_a_failing_step_says_why_and_stops_no_other(local: DoitProject, cluster: DaskCluster, tmp_path: Path) -> None:
    project = local.copy(tmp_path)
    project.edit("models.yaml", "rtol: 1e-3, atol: 1e-3", "rtol: 0, atol: 0")
    ran = build(project, cluster, "tune=never")
    assert (ran.code, sorted(ran.failed)) == (2, ["benchmark:digits@v2", "benchmark:digits@v3"]), ran.output
    assert f"Log: {project.root}/build/logs/benchmark.digits@v2.log" in ran.output
    assert "tvmbuild-step-" not in ran.output


def test_without_a_scheduler_it_is_doit(distributed: tuple[DoitProject, Ran]) -> None:
    ran = distributed[0].tvmbuild("build", "compile:digits@v3")
    assert (ran.code, ran.steps) == (0, []), ran.output
    assert "3 up to date" in ran.output


def test_what_is_too_far_from_the_original_brings_its_figure_home(
    local: DoitProject, cluster: DaskCluster, tmp_path: Path
) -> None:
    project = local.copy(tmp_path)
    np.savez(project.root / "real.npz", Input3=np.ones((2, 1, 28, 28), np.float32))
    project.edit("models.yaml", "    tolerance:", "    accuracy: {inputs: real.npz, rms: 1.0e-12}\n    tolerance:")
    path = project.root / "build/cells/digits@v3/result.json"
    path.unlink()
    ran = build(project, cluster, "benchmark:*@v3", "tune=never")
    assert ran.failed == ["benchmark:digits@v3"], ran.output
    assert "too far from the original model on real inputs: rms is" in ran.output
    assert json.loads(path.read_text())["accuracy"]["samples"] == 2
