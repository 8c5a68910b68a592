"""A tune step with measured choices."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import canonical_json, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.records.choices import Choice, Choices, choices_path, describe_graph, read_choices, write_choices
from tvmbuild.records.selection import TaskId, elect_all, read_applicable_files, resolved_target, write_tasks
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

OPTIONS = TuneStep(
    "pc", "llvm", FrozenMap({"mcpu": "znver4", "num-cores": 2}), FrozenMap(), "znver4", LocalDevice(), TuneOptions()
)
TARGET = resolved_target(OPTIONS)
KEY = "a" * 16
SMALL, LARGE = "1x9x9x16 to 32, padding 1 1 1 1", "1x13x13x512 to 1024, padding 1 1 1 1"
GRAPH = describe_graph([(KEY, 2)], {SMALL: "winograd2", LARGE: "direct"})
CHOSEN = Choices(
    {
        SMALL: Choice("direct", "znver4", FrozenMap({"direct": 1e-6, "winograd2": 2e-6})),
        LARGE: Choice("winograd4", "znver4", FrozenMap({"direct": 9e-3, "winograd4": 3e-3})),
    }
)
ALL = OPTIONS.tune.algorithms


def folder_of(step: Step[TuneStep]) -> Path:
    return Layout(step.root).records("pc")


def publish(step: Step[TuneStep]) -> None:
    algorithms = read_choices(folder_of(step), GRAPH, TARGET).algorithms(GRAPH, ALL)
    schedule = replace(elect_all(read_applicable_files(folder_of(step), [KEY], TARGET), None), algorithms=algorithms)
    write_json(step.output("schedule"), schedule.to_json())


def edit(step: Step[TuneStep], change: Callable[[dict[str, Any]], object]) -> None:
    path = choices_path(folder_of(step), GRAPH)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def make_step(root: Path) -> Step[TuneStep]:
    """Return a tune step that has run and has chosen."""
    outputs = FrozenMap({role: root / f"{role}.json" for role in ("tasks", "schedule", "info")})
    step = Step("tune", "m@pc", OPTIONS, outputs=outputs, root=root)
    trace = canonical_json({"decisions": [], "instructions": [["Seed", [], [1], []]]})
    record = Record(trace, 1e-6, "znver4", 2, "0.27.0")
    target = canonical_json(TARGET.to_json())
    file = TaskFile(KEY, "conv2d", "{}", target, "0.27.0", (record,), FrozenMap({"znver4": 64}))
    write_task_file(record_path(folder_of(step), KEY), file)
    write_choices(folder_of(step), GRAPH, TARGET, CHOSEN)
    write_tasks(step.output("tasks"), [TaskId(KEY, "conv2d", 2)], GRAPH)
    publish(step)
    return step


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another TVM": (lambda data: data.update(tvm="0.1"), "measured with TVM 0.1, not "),
    "another target": (lambda data: data["target"].update(kind="cuda"), "measured for other target attributes"),
    "a later format": (lambda data: data.update(format=9), "its format is 9, this tvmbuild reads 1"),
    "no algorithm": (lambda data: data["convolutions"][LARGE].pop("algorithm"), "damaged (KeyError: 'algorithm')"),
    "no text": (lambda data: data["convolutions"][LARGE].update(algorithm=4), "damaged (TypeError: "),
    "a list": (lambda data: data.update(convolutions=[]), "damaged (AttributeError: "),
}
