"""The check that the measured choices are those of a Schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chosen_step import FAULTS, GRAPH, LARGE, OPTIONS, SMALL, edit, folder_of, make_step, publish

from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.steps import Settings, Step, TuneStep
from tvmbuild.engine.outdated_schedule import Outdated, find_outdated
from tvmbuild.records.choices import choices_path


@pytest.fixture
def step(tmp_path: Path) -> Step[TuneStep]:
    return make_step(tmp_path)


@pytest.mark.parametrize("case", FAULTS)
def test_choices_that_cannot_be_used_are_told(case: str, step: Step[TuneStep]) -> None:
    change, reason = FAULTS[case]
    assert find_outdated(step) is None
    edit(step, change)
    path = choices_path(folder_of(step), GRAPH)
    stale = find_outdated(step)
    assert stale is not None
    assert stale.reason == "other algorithms are chosen now"
    assert stale.absent[0].startswith(f"{path.relative_to(step.root)} counts as absent: {reason}")


def test_an_edited_choice_runs_tune_and_equal_ones_change_nothing(step: Step[TuneStep]) -> None:
    before = step.output("schedule").read_bytes()
    edit(step, lambda data: data["convolutions"][LARGE]["seconds"].update(direct=1.0))
    assert find_outdated(step) is None
    publish(step)
    assert step.output("schedule").read_bytes() == before
    edit(step, lambda data: data["convolutions"][SMALL].update(algorithm="winograd2"))
    assert find_outdated(step) == Outdated("other algorithms are chosen now")
    publish(step)
    assert find_outdated(step) is None


def test_a_deleted_file_is_measured_again_where_something_can_be_chosen(step: Step[TuneStep]) -> None:
    choices_path(folder_of(step), GRAPH).unlink()
    assert find_outdated(step) == Outdated("other algorithms are chosen now")
    publish(step)
    assert find_outdated(step) == Outdated("how its convolutions are best computed was not measured")
    assert find_outdated(replace(step, settings=Settings(tune="never"))) is None
    only_direct = replace(OPTIONS, tune=replace(OPTIONS.tune, algorithms=("direct",)))
    assert find_outdated(replace(step, options=only_direct)) == Outdated("other algorithms are chosen now")
    assert find_outdated(replace(step, options=replace(OPTIONS, device=NoDevice()))) is None


def test_an_algorithm_that_the_target_does_not_allow_is_not_used(step: Step[TuneStep]) -> None:
    allowed = replace(OPTIONS, tune=replace(OPTIONS.tune, algorithms=("direct", "winograd2")))
    assert find_outdated(replace(step, options=allowed)) == Outdated("other algorithms are chosen now")
