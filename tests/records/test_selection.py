from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from elected_step import KEY, OPTIONS, OTHER, make_step, select_schedule, task_file, trace

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import canonical_json, pretty_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import TaskId, elect, needs_search, read_applicable, read_tasks, wanted_trials
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import ResolvedTarget


@pytest.fixture
def step(tmp_path: Path) -> Step[TuneStep]:
    return make_step(tmp_path)


def test_a_record_of_another_target_is_not_used(step: Step[TuneStep]) -> None:
    folder = Layout(step.root).records("pc")
    more_cores = replace(OPTIONS, attributes=FrozenMap({"mcpu": "znver4", "num-cores": 4}))
    assert select_schedule(folder, [KEY], more_cores).traces == {}
    assert select_schedule(folder, [KEY, OTHER], OPTIONS).traces == {KEY: trace(1)}


def test_a_card_s_record_is_used_whatever_the_cpu_beside_it(tmp_path: Path) -> None:
    cpus: tuple[Attributes, ...] = (
        FrozenMap({"mcpu": "x86-64-v3", "num-cores": 2}),
        FrozenMap({"mcpu": "znver4", "num-cores": 16}),
    )
    here, there = (ResolvedTarget("cuda", FrozenMap({"arch": "sm_90"}), cpu) for cpu in cpus)
    file = replace(task_file(KEY, (1, 2e-6, "h200")), target=canonical_json(there.to_json()))
    write_task_file(record_path(tmp_path, KEY), file)
    assert read_applicable(tmp_path, KEY, here) == file
    assert read_applicable(tmp_path, KEY, replace(here, attributes=FrozenMap({"arch": "sm_80"}))) is None


def test_the_targets_class_elects_and_else_one_other_class_alone() -> None:
    file = task_file(KEY, (1, 2e-6, "znver4"), (2, 1e-9, "cortex-a72"), (3, 5e-6, "skylake"))
    assert elect(file, "znver4") == file.records[0]
    chosen = elect(file, "raptorlake")
    assert chosen is not None
    assert chosen.measured_on == "cortex-a72"
    assert elect(task_file(KEY), "znver4") is None


@pytest.mark.parametrize(
    ("tune", "searched", "expected"),
    [
        (TuneOptions(), 63, True),
        (TuneOptions(), 64, False),
        (TuneOptions(trials_per_task=128), 64, True),
        (TuneOptions(ops=("dense*",)), 0, False),
        (TuneOptions(ops=("conv*",)), 0, True),
        (TuneOptions(trials=40), 20, False),
        (TuneOptions(trials=40), 19, True),
    ],
)
def test_needs_search(tune: TuneOptions, searched: int, expected: bool) -> None:
    assert needs_search(task_file(KEY, searched=searched), "conv2d", tune, tasks=2) is expected


def test_trials_are_shared_by_the_cells_tasks() -> None:
    assert wanted_trials(TuneOptions(trials_per_task=64), 10) == 64
    assert wanted_trials(TuneOptions(trials_per_task=64, trials=100), 10) == 10
    assert wanted_trials(TuneOptions(trials_per_task=64, trials=109), 10) == 10
    assert wanted_trials(TuneOptions(trials_per_task=64, trials=10000), 10) == 64
    assert wanted_trials(TuneOptions(trials_per_task=64, trials=10), 34) == 1


def test_tasks_json_holds_what_was_written(step: Step[TuneStep]) -> None:
    assert read_tasks(step.output("tasks")) == (TaskId(KEY, "conv2d", 3),)
    assert json.loads(step.output("tasks").read_text())["format"] == 1


@pytest.mark.parametrize("traces", [{}, {KEY: trace(1)}, {KEY: trace(1), OTHER: canonical_json({"a": "é\n{}"})}])
def test_the_text_of_a_schedule_is_what_is_written(traces: dict[str, str]) -> None:
    schedule = Schedule(FrozenMap(traces))
    assert schedule.to_text() == pretty_json(schedule.to_json())
