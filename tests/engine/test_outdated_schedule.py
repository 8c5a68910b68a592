"""The check that a Schedule is the one that the records elect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from elected_step import KEY, OPTIONS, make_step, publish, put, task_file

from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Settings, Step, TuneStep
from tvmbuild.engine.outdated_schedule import Outdated, find_outdated
from tvmbuild.records.store import record_path


@pytest.fixture
def step(tmp_path: Path) -> Step[TuneStep]:
    return make_step(tmp_path)


def test_a_losing_record_changes_nothing(step: Step[TuneStep]) -> None:
    before = step.output("schedule").read_bytes()
    put(step, task_file(KEY, (1, 2e-6, "znver4"), (2, 3e-6, "znver4"), (3, 1e-9, "cortex-a72"), searched=999))
    assert find_outdated(step) is None
    publish(step)
    assert step.output("schedule").read_bytes() == before


def test_the_same_winner_measured_again_is_the_same_schedule(step: Step[TuneStep]) -> None:
    before = step.output("schedule").read_bytes()
    put(step, task_file(KEY, (1, 1.9e-6, "znver4")))
    assert find_outdated(step) is None
    publish(step)
    assert step.output("schedule").read_bytes() == before


def test_a_winning_record_is_a_reason(step: Step[TuneStep]) -> None:
    put(step, task_file(KEY, (1, 2e-6, "znver4"), (2, 1e-6, "znver4")))
    assert find_outdated(step) == Outdated("other records win now")


def test_a_task_without_enough_candidates_is_a_reason_only_for_missing(step: Step[TuneStep]) -> None:
    put(step, task_file(KEY, (1, 2e-6, "znver4"), searched=10))
    assert find_outdated(step) == Outdated("1 of 1 Task not fully searched: conv2d")
    assert find_outdated(replace(step, settings=Settings(tune="never"))) is None
    none = replace(step, options=replace(OPTIONS, device=NoDevice()))
    assert find_outdated(none) is None


def test_an_exhausted_task_is_enough(step: Step[TuneStep]) -> None:
    put(step, replace(task_file(KEY, (1, 2e-6, "znver4"), searched=2), exhausted=("znver4",)))
    assert find_outdated(step) is None


def test_full_always_runs(step: Step[TuneStep]) -> None:
    assert find_outdated(replace(step, settings=Settings(tune="full"))) == Outdated("tune=full was asked for")


def test_missing_outputs_and_damaged_records_are_reasons(step: Step[TuneStep]) -> None:
    record_path(Layout(step.root).records("pc"), KEY).write_text("{")
    stale = find_outdated(step)
    assert stale is not None
    assert "damaged record file" in "".join(stale.absent)
    for damaged in ("", "[]", "{}", '{"tasks": [7]}'):
        step.output("tasks").write_text(damaged)
        assert find_outdated(step) == Outdated("its outputs are missing or damaged")
    step.output("tasks").unlink()
    assert find_outdated(step) == Outdated("its outputs are missing or damaged")
