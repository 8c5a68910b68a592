from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.files import canonical_json, pretty_json, write_json
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.layout import Layout
from tvmbuild.records.selection import (
    Schedule,
    TaskId,
    elect,
    elect_all,
    is_current,
    needs_search,
    read_applicable_files,
    read_tasks,
    resolved_target,
    wanted_trials,
    write_tasks,
)
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.specs import LocalDevice, NoDevice, TuneOptions
from tvmbuild.steps import Settings, Step, TuneStep

OPTIONS = TuneStep(
    "pc", "llvm", FrozenMap({"mcpu": "znver4", "num-cores": 2}), FrozenMap(), "znver4", LocalDevice(), TuneOptions()
)
KEY, OTHER = "a" * 16, "b" * 16


def trace(number: int) -> str:
    return canonical_json({"decisions": [], "instructions": [["Seed", [], [number], []]]})


def task_file(key: str, *records: tuple[int, float, str], searched: int = 64) -> TaskFile:
    return TaskFile(
        key,
        "conv2d",
        "{}",
        canonical_json(resolved_target(OPTIONS).to_json()),
        "0.27.0",
        tuple(Record(trace(number), seconds, where, 2, "0.27.0") for number, seconds, where in records),
        FrozenMap({"znver4": searched}),
    )


@pytest.fixture
def step(tmp_path: Path) -> Step[TuneStep]:
    """A tune step that has run: one Task, one record, its Schedule elected."""
    outputs = FrozenMap({role: tmp_path / f"{role}.json" for role in ("tasks", "schedule", "info")})
    step = Step("tune", "m@pc", OPTIONS, outputs=outputs, root=tmp_path)
    put(step, task_file(KEY, (1, 2e-6, "znver4")))
    write_tasks(step.output("tasks"), [TaskId(KEY, "conv2d", 3)])
    publish(step)
    return step


def put(step: Step[TuneStep], file: TaskFile) -> None:
    write_task_file(record_path(Layout(step.root).records("pc"), file.key), file)


def select_schedule(folder: Path, keys: list[str], options: TuneStep) -> Schedule:
    return elect_all(read_applicable_files(folder, keys, resolved_target(options)), options.measured_on)


def publish(step: Step[TuneStep]) -> None:
    keys = [task.key for task in read_tasks(step.output("tasks"))]
    write_json(step.output("schedule"), select_schedule(Layout(step.root).records("pc"), keys, OPTIONS).to_json())


def test_a_losing_record_changes_nothing(step: Step[TuneStep]) -> None:
    before = step.output("schedule").read_bytes()
    put(step, task_file(KEY, (1, 2e-6, "znver4"), (2, 3e-6, "znver4"), (3, 1e-9, "cortex-a72"), searched=999))
    assert is_current(step) is None
    publish(step)
    assert step.output("schedule").read_bytes() == before


def test_the_same_winner_measured_again_is_the_same_schedule(step: Step[TuneStep]) -> None:
    before = step.output("schedule").read_bytes()
    put(step, task_file(KEY, (1, 1.9e-6, "znver4")))
    assert is_current(step) is None
    publish(step)
    assert step.output("schedule").read_bytes() == before


def test_a_winning_record_is_a_reason(step: Step[TuneStep]) -> None:
    put(step, task_file(KEY, (1, 2e-6, "znver4"), (2, 1e-6, "znver4")))
    assert is_current(step) == "other records win now"


def test_a_task_without_enough_candidates_is_a_reason_only_for_missing(step: Step[TuneStep]) -> None:
    put(step, task_file(KEY, (1, 2e-6, "znver4"), searched=10))
    assert is_current(step) == "1 of 1 Tasks lack records: conv2d"
    assert is_current(replace(step, settings=Settings(tune="never"))) is None
    none = replace(step, options=replace(OPTIONS, device=NoDevice()))
    assert is_current(none) is None


def test_an_exhausted_task_is_enough(step: Step[TuneStep]) -> None:
    put(step, replace(task_file(KEY, (1, 2e-6, "znver4"), searched=2), exhausted=("znver4",)))
    assert is_current(step) is None


def test_full_always_runs(step: Step[TuneStep]) -> None:
    assert is_current(replace(step, settings=Settings(tune="full"))) == "tune=full was asked for"


def test_missing_outputs_and_damaged_records_are_reasons(step: Step[TuneStep]) -> None:
    record_path(Layout(step.root).records("pc"), KEY).write_text("{")
    assert "damaged record file" in (is_current(step) or "")
    for damaged in ("", "[]", "{}", '{"tasks": [7]}'):
        step.output("tasks").write_text(damaged)
        assert is_current(step) == "its outputs are missing or damaged"
    step.output("tasks").unlink()
    assert is_current(step) == "its outputs are missing or damaged"


def test_a_record_of_another_target_is_not_used(step: Step[TuneStep]) -> None:
    folder = Layout(step.root).records("pc")
    more_cores = replace(OPTIONS, attributes=FrozenMap({"mcpu": "znver4", "num-cores": 4}))
    assert select_schedule(folder, [KEY], more_cores).traces == {}
    assert select_schedule(folder, [KEY, OTHER], OPTIONS).traces == {KEY: trace(1)}


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
