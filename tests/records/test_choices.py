from __future__ import annotations

import json
from pathlib import Path

import pytest
from chosen_step import ALL, CHOSEN, FAULTS, GRAPH, KEY, LARGE, SMALL, TARGET, edit, folder_of, make_step

from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.records.choices import Choices, Graph, choices_path, describe_graph, read_choices, read_graph
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import TaskId, read_tasks, write_tasks


@pytest.fixture
def step(tmp_path: Path) -> Step[TuneStep]:
    return make_step(tmp_path)


def test_what_is_written_is_read(step: Step[TuneStep]) -> None:
    assert read_choices(folder_of(step), GRAPH, TARGET) == CHOSEN
    assert CHOSEN.algorithms(GRAPH, ALL) == {LARGE: "winograd4"}
    assert CHOSEN.algorithms(GRAPH, ["direct", "winograd2"]) == {}
    assert CHOSEN.list_undecided(Graph(GRAPH.digest, (LARGE, "another"))) == ("another",)
    assert choices_path(folder_of(step), GRAPH).parent == step.root / "records" / "pc" / "choices"


def test_what_was_not_measured_is_by_rule() -> None:
    assert Choices({}).algorithms(GRAPH, ALL) == {SMALL: "winograd2"}
    assert Choices({}).algorithms(GRAPH, ["direct", "winograd4"]) == {}
    assert Choices({}).algorithms(None, ALL) == {}
    only_large = Choices({LARGE: CHOSEN.by_signature[LARGE]})
    assert only_large.algorithms(GRAPH, ALL) == {SMALL: "winograd2", LARGE: "winograd4"}


def test_the_digest_is_of_tasks_and_calls_in_any_order() -> None:
    tasks = [(KEY, 2), ("b" * 16, 1)]
    assert describe_graph(tasks, {}).digest == describe_graph(reversed(tasks), {}).digest
    assert describe_graph(tasks, {}).digest != describe_graph([(KEY, 1), ("b" * 16, 1)], {}).digest


def test_a_schedule_without_algorithms_is_what_it_was() -> None:
    assert Schedule(FrozenMap()).to_json() == {"format": 1, "layout": None, "schedule": {}}
    chosen = Schedule(FrozenMap({KEY: canonical_json({"instructions": []})}), None, FrozenMap({LARGE: "winograd4"}))
    assert json.loads(chosen.to_text()) == chosen.to_json()
    assert chosen.to_json()["algorithms"] == {LARGE: "winograd4"}


def test_tasks_tell_of_a_graph_only_where_there_is_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    write_tasks(path, [TaskId(KEY, "conv2d", 2)])
    assert read_graph(path) is None
    assert (
        path.read_text()
        == json.dumps({"format": 1, "tasks": [{"key": KEY, "name": "conv2d", "weight": 2}]}, indent=1, sort_keys=True)
        + "\n"
    )
    write_tasks(path, [TaskId(KEY, "conv2d", 2)], GRAPH)
    assert read_graph(path) == GRAPH
    assert read_tasks(path) == (TaskId(KEY, "conv2d", 2),)


@pytest.mark.parametrize("case", FAULTS)
def test_what_cannot_be_used_counts_as_absent(case: str, step: Step[TuneStep]) -> None:
    change, reason = FAULTS[case]
    edit(step, change)
    found = read_choices(folder_of(step), GRAPH, TARGET)
    assert found.by_signature == {}
    path = choices_path(folder_of(step), GRAPH)
    assert str(found.problem).startswith(f"{path} counts as absent: {reason}")


def test_a_text_that_is_no_json_counts_as_absent(step: Step[TuneStep]) -> None:
    choices_path(folder_of(step), GRAPH).write_text("{")
    assert "damaged (JSONDecodeError" in str(read_choices(folder_of(step), GRAPH, TARGET).problem)
