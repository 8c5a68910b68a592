"""The tune stage on a real model: mnist, whose matmul alone is searched."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import Layout
from tvmbuild.records.selection import is_current
from tvmbuild.specs import DeviceSpec, Settings, Step, TuneOptions, TuneStep

pytestmark = pytest.mark.compiler


@pytest.fixture
def step(tmp_path: Path, shared_models: Path, monkeypatch: pytest.MonkeyPatch) -> Step:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    attributes = (("mcpu", "x86-64-v2"), ("mtriple", "x86_64-linux-gnu"), ("num-cores", 1))
    tune = TuneOptions(trials_per_task=4, repeat=1, min_repeat_ms=1, ops=("matmul*",))
    return Step(
        stage="tune",
        subject="mnist@pc",
        options=TuneStep("pc", "llvm", attributes, (), None, DeviceSpec(), tune),
        inputs=(("model", shared_models / "mnist.onnx"),),
        outputs=tuple((role, tmp_path / "build" / f"{role}.json") for role in ("tasks", "schedule", "info")),
        root=tmp_path,
    )


def options_of(step: Step) -> TuneStep:
    assert isinstance(step.options, TuneStep)
    return step.options


def read(step: Step, role: str) -> dict[str, object]:
    value: dict[str, object] = json.loads(step.output(role).read_text())
    return value


def test_missing_measures_once_and_never_takes_what_is_there(step: Step) -> None:
    from tvmbuild.stages import tune

    assert is_current(step) == "its outputs are missing or damaged"
    tune.run(step)
    info = read(step, "info")
    assert info["measured_now"] == 4
    assert info["covered"] == 1
    schedule = step.output("schedule").read_bytes()
    (record,) = Layout(step.root).records("pc").glob("*.json")
    assert json.loads(record.read_text())["searched"] == dict.fromkeys(json.loads(record.read_text())["searched"], 4)
    assert is_current(step) is None

    before = record.read_bytes()
    tune.run(step)
    assert read(step, "info")["measured_now"] == 0
    assert record.read_bytes() == before
    assert step.output("schedule").read_bytes() == schedule

    for path in (step.output("tasks"), step.output("schedule")):
        path.unlink()
    tune.run(replace(step, settings=Settings(tune="never")))
    assert step.output("schedule").read_bytes() == schedule

    options = options_of(step)
    raised = replace(step, options=replace(options, tune=replace(options.tune, trials_per_task=6)))
    assert is_current(raised) == f"1 of {info['tasks']} Tasks lack records: matmul_add"
    leftover = record.with_name(f".{record.name}.killed.tmp")
    leftover.touch()
    tune.run(raised)
    assert read(step, "info")["measured_now"] == 2
    assert not leftover.exists()

    tune.run(replace(step, settings=Settings(tune="full")))
    assert read(step, "info")["searched_now"] == ["matmul_add"]


def test_without_records_never_covers_nothing_and_strict_refuses(step: Step) -> None:
    from tvmbuild.stages import tune

    tune.run(replace(step, settings=Settings(tune="never")))
    info = read(step, "info")
    assert info["covered"] == 0
    assert len(info["uncovered"]) == info["tasks"]  # type: ignore[arg-type]
    assert read(step, "schedule")["schedule"] == {}
    with pytest.raises(TvmbuildError, match="Tasks have no record: ") as caught:
        tune.run(replace(step, settings=Settings(tune="never", strict=True)))
    assert "strict=1" in (caught.value.hint or "")


def test_a_device_that_cannot_tune_yet_is_refused_with_the_remedy(step: Step) -> None:
    from tvmbuild.stages import tune

    board = replace(options_of(step), device=DeviceSpec("rpc", tracker="127.0.0.1:9190", key="pi4"))
    with pytest.raises(TvmbuildError, match="device rpc cannot be done yet") as caught:
        tune.run(replace(step, options=board))
    assert "device: none" in (caught.value.hint or "")


def test_a_record_file_with_another_workload_is_refused(step: Step) -> None:
    from tvmbuild.stages import tune

    tune.run(step)
    (path,) = Layout(step.root).records("pc").glob("*.json")
    text = path.read_text()
    assert "float32" in text
    path.write_text(text.replace("float32", "float64"))
    with pytest.raises(TvmbuildError, match=f"{path.name} holds another workload than the Task matmul_add of that key"):
        tune.run(step)


def test_an_interrupted_search_goes_on_and_times_its_best_again(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmbuild.stages import search_tasks, tune

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search_tasks, "_elect", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tune.run(step)
    (path,) = Layout(step.root).records("pc").glob("*.json")
    interrupted = json.loads(path.read_text())
    assert len(interrupted["records"]) > 0
    assert set(interrupted["searched"].values()) == {0}
    tune.run(step)
    assert set(json.loads(path.read_text())["searched"].values()) == {4}
    assert is_current(step) is None
