from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.files import canonical_json, write_json
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.layout import Layout
from tvmbuild.records.choices import (
    Choice,
    Choices,
    Graph,
    choices_path,
    describe_graph,
    read_choices,
    read_graph,
    write_choices,
)
from tvmbuild.records.selection import (
    Schedule,
    TaskId,
    elect_all,
    is_current,
    read_applicable_files,
    read_tasks,
    resolved_target,
    write_tasks,
)
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.specs import LocalDevice, NoDevice, TuneOptions
from tvmbuild.steps import Settings, Step, TuneStep

OPTIONS = TuneStep(
    "pc", "llvm", FrozenMap({"mcpu": "znver4", "num-cores": 2}), FrozenMap(), "znver4", LocalDevice(), TuneOptions()
)
TARGET = resolved_target(OPTIONS)
KEY = "a" * 16
SMALL, LARGE = "1x9x9x16 to 32, padding 1 1 1 1", "1x13x13x512 to 1024, padding 1 1 1 1"
GRAPH = describe_graph([(KEY, 2)], [SMALL, LARGE])
CHOSEN = Choices(
    {
        SMALL: Choice("direct", "znver4", FrozenMap({"direct": 1e-6, "winograd2": 2e-6})),
        LARGE: Choice("winograd4", "znver4", FrozenMap({"direct": 9e-3, "winograd4": 3e-3})),
    }
)
ALL = OPTIONS.tune.algorithms


@pytest.fixture
def step(tmp_path: Path) -> Step[TuneStep]:
    """A tune step that has run and has chosen."""
    outputs = FrozenMap({role: tmp_path / f"{role}.json" for role in ("tasks", "schedule", "info")})
    step = Step("tune", "m@pc", OPTIONS, outputs=outputs, root=tmp_path)
    trace = canonical_json({"decisions": [], "instructions": [["Seed", [], [1], []]]})
    record = Record(trace, 1e-6, "znver4", 2, "0.27.0")
    target = canonical_json(TARGET.to_json())
    file = TaskFile(KEY, "conv2d", "{}", target, "0.27.0", (record,), FrozenMap({"znver4": 64}))
    write_task_file(record_path(folder_of(step), KEY), file)
    write_choices(folder_of(step), GRAPH, TARGET, CHOSEN)
    write_tasks(step.output("tasks"), [TaskId(KEY, "conv2d", 2)], GRAPH)
    publish(step)
    return step


def folder_of(step: Step[TuneStep]) -> Path:
    return Layout(step.root).records("pc")


def publish(step: Step[TuneStep]) -> None:
    algorithms = read_choices(folder_of(step), GRAPH, TARGET).algorithms(ALL)
    schedule = replace(elect_all(read_applicable_files(folder_of(step), [KEY], TARGET), None), algorithms=algorithms)
    write_json(step.output("schedule"), schedule.to_json())


def edit(step: Step[TuneStep], change: Callable[[dict[str, Any]], object]) -> None:
    path = choices_path(folder_of(step), GRAPH)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_what_is_written_is_read(step: Step[TuneStep]) -> None:
    assert read_choices(folder_of(step), GRAPH, TARGET) == CHOSEN
    assert CHOSEN.algorithms(ALL) == {LARGE: "winograd4"}
    assert CHOSEN.algorithms(["direct", "winograd2"]) == {}
    assert CHOSEN.list_undecided(Graph(GRAPH.digest, (LARGE, "another"))) == ("another",)
    assert choices_path(folder_of(step), GRAPH).parent == step.root / "records" / "pc" / "choices"


def test_the_digest_is_of_tasks_and_calls_in_any_order() -> None:
    tasks = [(KEY, 2), ("b" * 16, 1)]
    assert describe_graph(tasks, []).digest == describe_graph(reversed(tasks), []).digest
    assert describe_graph(tasks, []).digest != describe_graph([(KEY, 1), ("b" * 16, 1)], []).digest


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


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another TVM": (lambda data: data.update(tvm="0.1"), "measured with TVM 0.1, not "),
    "another target": (lambda data: data["target"].update(kind="cuda"), "measured for other target attributes"),
    "a later format": (lambda data: data.update(format=9), "its format is 9, this tvmbuild reads 1"),
    "no algorithm": (lambda data: data["convolutions"][LARGE].pop("algorithm"), "damaged (KeyError: 'algorithm')"),
    "no text": (lambda data: data["convolutions"][LARGE].update(algorithm=4), "damaged (TypeError: "),
    "a list": (lambda data: data.update(convolutions=[]), "damaged (AttributeError: "),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_cannot_be_used_counts_as_absent(case: str, step: Step[TuneStep]) -> None:
    change, reason = FAULTS[case]
    assert is_current(step) is None
    edit(step, change)
    found = read_choices(folder_of(step), GRAPH, TARGET)
    assert found.by_signature == {}
    path = choices_path(folder_of(step), GRAPH)
    assert str(found.problem).startswith(f"{path} counts as absent: {reason}")
    said = is_current(step)
    assert said is not None
    assert said.startswith(f"other algorithms are chosen now; {path} counts as absent: {reason}")


def test_a_text_that_is_no_json_counts_as_absent(step: Step[TuneStep]) -> None:
    choices_path(folder_of(step), GRAPH).write_text("{")
    assert "damaged (JSONDecodeError" in str(read_choices(folder_of(step), GRAPH, TARGET).problem)


def test_an_edited_choice_runs_tune_and_equal_ones_change_nothing(step: Step[TuneStep]) -> None:
    before = step.output("schedule").read_bytes()
    edit(step, lambda data: data["convolutions"][LARGE]["seconds"].update(direct=1.0))
    assert is_current(step) is None
    publish(step)
    assert step.output("schedule").read_bytes() == before
    edit(step, lambda data: data["convolutions"][SMALL].update(algorithm="winograd2"))
    assert is_current(step) == "other algorithms are chosen now"
    publish(step)
    assert is_current(step) is None


def test_a_deleted_file_is_measured_again_where_something_can_be_chosen(step: Step[TuneStep]) -> None:
    choices_path(folder_of(step), GRAPH).unlink()
    assert is_current(step) == "other algorithms are chosen now"
    publish(step)
    assert is_current(step) == "how its convolutions are best computed was not measured"
    assert is_current(replace(step, settings=Settings(tune="never"))) is None
    only_direct = replace(OPTIONS, tune=replace(OPTIONS.tune, algorithms=("direct",)))
    assert is_current(replace(step, options=only_direct)) is None
    assert is_current(replace(step, options=replace(OPTIONS, device=NoDevice()))) is None


def test_an_algorithm_that_the_target_does_not_allow_is_not_used(step: Step[TuneStep]) -> None:
    allowed = replace(OPTIONS, tune=replace(OPTIONS.tune, algorithms=("direct", "winograd2")))
    assert is_current(replace(step, options=allowed)) == "other algorithms are chosen now"
