"""The tune stage on one convolution with three possible algorithms, and the resulting package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Settings, Step, TuneStep
from tvmbuild.engine.outdated_schedule import Outdated, find_outdated
from tvmbuild.records.choices import choices_path, read_graph
from tvmbuild.records.selection import read_tasks

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folders")]

SIGNATURE = "1x12x12x16 to 16, padding 1 1 1 1"


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Step[TuneStep]:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    weights = np.random.RandomState(0).uniform(-1, 1, (16, 16, 3, 3)).astype("float32")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 12, 12))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "model.onnx"))
    attributes: Attributes = FrozenMap({"mcpu": "x86-64-v2", "mtriple": "x86_64-linux-gnu", "num-cores": 1})
    tune = TuneOptions(trials_per_task=1, repeat=1, min_repeat_ms=1, cost_model="random", ops=("conv2d*", "winograd*"))
    return Step(
        stage="tune",
        subject="net@pc",
        options=TuneStep("pc", "llvm", attributes, FrozenMap(), None, LocalDevice(), tune),
        inputs=FrozenMap({"model": tmp_path / "model.onnx"}),
        outputs=FrozenMap({role: tmp_path / "build" / f"{role}.json" for role in ("tasks", "schedule", "info")}),
        root=tmp_path,
    )


def task_names(step: Step[TuneStep]) -> set[str]:
    return {task.name for task in read_tasks(step.output("tasks"))}


@pytest.mark.nightly
def test_each_way_is_measured_and_the_fastest_is_used(step: Step[TuneStep]) -> None:
    from tvmbuild.compiler.convolution_times import fastest
    from tvmbuild.stages import tune

    tune.run(step)
    graph = read_graph(step.output("tasks"))
    assert graph is not None
    path = choices_path(Layout(step.root).records("pc"), graph)
    found = json.loads(path.read_text())["convolutions"]
    assert list(found) == [SIGNATURE]
    seconds = found[SIGNATURE]["seconds"]
    assert set(seconds) == {"direct", "winograd2", "winograd4"}
    assert found[SIGNATURE]["algorithm"] == fastest(seconds)
    assert find_outdated(step) is None

    outputs = {role: path.read_bytes() for role, path in step.outputs.items() if role != "info"}
    choices = path.read_bytes()
    tune.run(step)
    assert json.loads(step.output("info").read_text())["measured_now"] == 0
    assert {role: path.read_bytes() for role, path in step.outputs.items() if role != "info"} == outputs
    assert path.read_bytes() == choices

    for algorithm in ("winograd2", "direct"):
        rows = json.loads(choices)
        rows["convolutions"][SIGNATURE]["algorithm"] = algorithm
        path.write_text(json.dumps(rows))
        tune.run(replace(step, settings=Settings(tune="never")))
        assert find_outdated(step) is None
        schedule = json.loads(step.output("schedule").read_text())
        assert schedule.get("algorithms") == (None if algorithm == "direct" else {SIGNATURE: algorithm})
        assert ("winograd_rows_relu" in task_names(step)) == (algorithm != "direct")
        assert ("conv2d_relu" in task_names(step)) == (algorithm == "direct")
        searched = [task for task in read_tasks(step.output("tasks")) if task.name.startswith(("conv2d", "winograd"))]
        assert {task.key for task in searched} == set(schedule["schedule"])


def test_nothing_is_measured_where_only_one_way_is_allowed(step: Step[TuneStep]) -> None:
    from tvmbuild.stages import tune

    options = step.options
    only = replace(step, options=replace(options, tune=replace(options.tune, algorithms=("direct",))))
    tune.run(only)
    assert json.loads(step.output("info").read_text())["searched_now"] == ["conv2d_relu"]
    assert not (Layout(step.root).records("pc") / "choices").exists()
    assert find_outdated(only) is None
    assert find_outdated(step) == Outdated("other algorithms are chosen now")
