"""The tune stage on a real model, the small network; only its matmul is searched."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import LocalDevice, NoDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.postprocess_specs import Classes, Postprocess, Text
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Settings, Step, TuneStep
from tvmbuild.base.wording import count
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.engine.outdated_schedule import Outdated, find_outdated
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.course import read_course
from tvmbuild.records.journal import Entry, read_entries
from tvmbuild.records.store import read_task_file, write_task_file

pytestmark = pytest.mark.compiler


@pytest.fixture
def step(tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> Step[TuneStep]:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    attributes: Attributes = FrozenMap({"mcpu": "x86-64-v2", "mtriple": "x86_64-linux-gnu", "num-cores": 1})
    tune = TuneOptions(trials_per_task=4, repeat=1, min_repeat_ms=1, ops=("matmul*",))
    return Step(
        stage="tune",
        subject="digits@pc",
        options=TuneStep("pc", "llvm", attributes, FrozenMap(), None, LocalDevice(), tune),
        inputs=FrozenMap({"model": digits}),
        outputs=FrozenMap({role: tmp_path / "build" / f"{role}.json" for role in ("tasks", "schedule", "info")}),
        root=tmp_path,
    )


def read(step: Step[TuneStep], role: str) -> dict[str, object]:
    value: dict[str, object] = json.loads(step.output(role).read_text())
    return value


def test_missing_measures_once_and_never_takes_what_is_there(step: Step[TuneStep]) -> None:
    from tvmbuild.stages import tune

    assert find_outdated(step) == Outdated("its outputs are missing or damaged")
    tune.run(step)
    info = read(step, "info")
    assert info["measured_now"] == 4
    assert info["covered"] == 1
    schedule = step.output("schedule").read_bytes()
    (record,) = Layout(step.root).records("pc").glob("*.json")
    assert json.loads(record.read_text())["searched"] == dict.fromkeys(json.loads(record.read_text())["searched"], 4)
    assert find_outdated(step) is None

    before = record.read_bytes()
    tune.run(step)
    assert read(step, "info")["measured_now"] == 0
    assert record.read_bytes() == before
    assert step.output("schedule").read_bytes() == schedule

    for path in (step.output("tasks"), step.output("schedule")):
        path.unlink()
    tune.run(replace(step, settings=Settings(tune="never")))
    assert step.output("schedule").read_bytes() == schedule

    options = step.options
    raised = replace(step, options=replace(options, tune=replace(options.tune, trials_per_task=6)))
    noun = "Task" if info["tasks"] == 1 else "Tasks"
    assert find_outdated(raised) == Outdated(f"1 of {info['tasks']} {noun} not fully searched: matmul_add")
    leftover = record.with_name(f".{record.name}.killed.tmp")
    leftover.touch()
    tune.run(raised)
    assert read(step, "info")["measured_now"] == 2
    assert not leftover.exists()

    tune.run(replace(step, settings=Settings(tune="full")))
    assert read(step, "info")["searched_now"] == ["matmul_add"]


def test_what_newer_rules_would_do_is_measured_once(step: Step[TuneStep]) -> None:
    from tvmbuild.stages import tune

    tune.run(step)
    (path,) = Layout(step.root).records("pc").glob("*.json")
    before = read_task_file(path)
    assert before is not None
    ((device_class, first_rules),) = before.rules.items()
    assert first_rules == step.options.rules
    newer = replace(step, options=replace(step.options, rules=first_rules + 1, timed_on=device_class))
    tasks = count(len(json.loads(step.output("tasks").read_text())["tasks"]), "Task")
    assert find_outdated(newer) == Outdated(f"1 of {tasks} searched before a rule changed")
    tune.run(replace(newer, settings=Settings(tune="never")))
    assert read_task_file(path) == before

    write_task_file(path, replace(before, records=before.records[1:]))
    tune.run(newer)
    assert read(step, "info")["measured_now"] == 1  # the others are records: the rules have not changed for them
    after = read_task_file(path)
    assert after is not None
    assert after.rules == {device_class: first_rules + 1}
    assert {record.trace for record in after.records} == {record.trace for record in before.records}
    assert after.searched_on(device_class) == before.searched_on(device_class) + 1
    assert find_outdated(newer) is None
    tune.run(newer)
    assert read(step, "info")["measured_now"] == 0


def test_without_records_never_covers_nothing_and_strict_refuses(step: Step[TuneStep]) -> None:
    from tvmbuild.stages import tune

    tune.run(replace(step, settings=Settings(tune="never")))
    info = read(step, "info")
    assert info["covered"] == 0
    assert len(info["uncovered"]) == info["tasks"]  # type: ignore[arg-type]
    assert read(step, "schedule")["schedule"] == {}
    with pytest.raises(TvmbuildError, match=r"Tasks? ha(s|ve) no record: ") as caught:
        tune.run(replace(step, settings=Settings(tune="never", strict=True)))
    assert "strict=1" in (caught.value.hint or "")


def test_strict_asks_for_no_records_of_a_kind_that_cannot_be_searched(step: Step[TuneStep]) -> None:
    from tvmbuild.stages import tune

    limits = FrozenMap({"max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024})
    gpu: Attributes = FrozenMap({"arch": "sm_90", **limits, "thread_warp_size": 32})
    host = step.options.attributes
    options = replace(step.options, kind="cuda", attributes=gpu, host=host, device=NoDevice(), needs_records=False)
    tune.run(replace(step, options=options, settings=Settings(strict=True)))
    info = read(step, "info")
    assert (info["covered"], read(step, "schedule")["schedule"]) == (0, {})
    assert len(info["uncovered"]) == info["tasks"]  # type: ignore[arg-type]


def quarantine(step: Step[TuneStep]) -> list[dict[str, str]]:
    """Return the quarantine in tune.json after a run that may not search."""
    from tvmbuild.stages import tune

    tune.run(replace(step, settings=Settings(tune="never")))
    found: list[dict[str, str]] = json.loads(step.output("info").read_text())["quarantined"]
    return found


@pytest.mark.nightly
def test_what_cannot_be_trusted_is_not_used_not_a_crash_and_said(
    step: Step[TuneStep], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvmbuild.replay import verification
    from tvmbuild.stages import tune

    tune.run(step)
    (path,) = Layout(step.root).records("pc").glob("*.json")
    good, schedule = path.read_text(), step.output("schedule").read_bytes()
    assert quarantine(step) == []
    with monkeypatch.context() as patch:  # a schedule that was good once is not checked again
        patch.setattr(verification, "_CHILD", "no.such.module")
        assert quarantine(step) == []

    never = replace(step, settings=Settings(tune="never"))
    for damaged in (good.replace("float32", "float64"), good[:-20], ""):
        path.write_text(damaged)
        capfd.readouterr()
        (fault,) = quarantine(step)
        assert fault["of"] == "file"
        assert f"matmul_add: records/pc/{path.name} is not used as it is: {fault['reason']}" in capfd.readouterr().out
        assert read(step, "schedule")["schedule"] == {}
        assert path.read_text() == damaged
        assert damaged in [kept.read_text() for kept in Layout(step.root).quarantine("pc").glob("*.kept")]
        assert find_outdated(never) is None
    path.write_text(conflicted := f"<<<<<<< ours\n{good}=======\n{good}>>>>>>> theirs\n")
    with pytest.raises(TvmbuildError, match="git has left both sides of a merge in it"):
        tune.run(step)  # neither is lost
    assert path.read_text() == conflicted
    path.write_text("")
    tune.run(step)  # a damaged file is measured again
    assert read(step, "info")["measured_now"] == 4
    assert read(step, "info")["quarantined"] == []

    path.write_text(good)
    assert quarantine(step) == []
    assert step.output("schedule").read_bytes() == schedule


@pytest.mark.nightly
def test_a_winner_that_does_not_replay_gives_way_to_the_next(step: Step[TuneStep]) -> None:
    from tvmbuild.records.store import read_task_file, write_task_file
    from tvmbuild.stages import tune

    tune.run(step)
    (path,) = Layout(step.root).records("pc").glob("*.json")
    file, schedule = read_task_file(path), step.output("schedule").read_bytes()
    assert file is not None
    hostile = []
    for number, edit in enumerate(("unknown", "divides by zero", "empty")):
        trace = json.loads(file.records[0].trace)
        if edit == "unknown":
            trace["instructions"][0][0] = "RunAnything"
        elif edit == "empty":
            trace = {"instructions": [], "decisions": []}
        else:
            splits = [each for each in trace["instructions"] if each[0] == "Split"]
            assert splits
            for each in splits:
                each[1] = [0 if isinstance(value, int) else value for value in each[1]]
        text = json.dumps(trace, separators=(",", ":"), sort_keys=True)
        hostile.append(replace(file.records[0], trace=text, seconds=(number + 1) * 1e-12))
    write_task_file(path, replace(file, records=(*hostile, *file.records)))
    before = path.read_bytes()
    assert find_outdated(step) == Outdated("other records win now")
    tune.run(step)
    reasons = [fault["reason"] for fault in read(step, "info")["quarantined"]]  # type: ignore[attr-defined]
    assert len(reasons) == len(hostile)
    assert path.read_bytes() == before  # this clone's findings stay in this clone
    assert step.output("schedule").read_bytes() == schedule
    assert find_outdated(step) is None

    write_task_file(path, replace(file, records=tuple(hostile)))
    assert find_outdated(replace(step, settings=Settings(tune="never"))) == Outdated("other records win now")
    tune.run(step)  # without a record it is searched again, and the hostile ones go
    assert read(step, "info")["measured_now"] == 4
    again = read_task_file(path)
    assert again is not None
    assert not {record.trace for record in hostile} & {record.trace for record in again.records}
    assert find_outdated(step) is None


def test_an_interrupted_search_goes_on_and_times_its_best_again(
    step: Step[TuneStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvmbuild.stages import tune
    from tvmbuild.tuning import search

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search, "_time_best", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tune.run(step)
    (path,) = Layout(step.root).records("pc").glob("*.json")
    interrupted = json.loads(path.read_text())
    assert len(interrupted["records"]) > 0
    assert set(interrupted["searched"].values()) == {4}
    (key,) = {path.stem}
    journal = Layout(step.root).journal("pc", key)
    assert len(read_entries(journal)) == 4
    tune.run(step)
    assert read(step, "info")["measured_now"] == 0
    assert set(json.loads(path.read_text())["searched"].values()) == {4}
    assert not journal.exists()
    course = read_course(Layout(step.root).course("pc", key))
    assert course is not None
    assert course.measured == 4
    assert course.points
    assert find_outdated(step) is None


@pytest.mark.parametrize(
    ("asked", "names", "message"),
    [
        (Text(), 10, "`text` needs an output"),
        (Classes(), 80, "has 80 names, and the result `classes` of digits has 10"),
    ],
)
def test_a_result_that_does_not_fit_is_refused_before_the_search(
    step: Step[TuneStep], asked: Postprocess, names: int, message: str
) -> None:
    """Simplify is up to date after a change of `postprocess`, and so checks nothing."""
    from tvmbuild.stages import tune

    (step.root / "names.txt").write_text("one\n" * names)
    options = replace(step.options, postprocess=(asked,), labels="names.txt")
    with pytest.raises(TvmbuildError, match=message):
        tune.run(replace(step, options=options))
    assert not step.output("schedule").exists()
    assert not list(Layout(step.root).records("pc").glob("*.json"))
    assert fingerprint(replace(step, options=options)) == fingerprint(step)  # so a changed threshold searches nothing


@pytest.mark.nightly
def test_kill_9_in_the_middle_of_a_batch_loses_no_measurement(step: Step[TuneStep]) -> None:
    options = step.options
    longer = replace(step, options=replace(options, tune=replace(options.tune, trials_per_task=32, min_repeat_ms=50)))
    code = "import pickle, sys; from tvmbuild.stages import tune; tune.run(pickle.load(sys.stdin.buffer))"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(longer))
    process.stdin.close()
    folder = Layout(step.root).journal("pc", "any").parent
    entries: tuple[Entry, ...] = ()
    while len(entries) < 8:
        assert process.poll() is None
        entries = tuple(entry for path in folder.glob("*.jsonl") for entry in read_entries(path))
        time.sleep(0.01)
    process.kill()
    process.wait()
    (journal,) = folder.glob("*.jsonl")
    entries = read_entries(journal)
    assert 8 <= len(entries) < 32
    record = Layout(step.root).records("pc") / f"{journal.stem}.json"
    ended = read_task_file(record)
    assert ended is not None  # the batch of the rules
    assert ended.most_searched < len(entries)  # the next had not ended: only the journal has it

    from tvmbuild.stages import tune

    tune.run(replace(longer, options=replace(options, tune=replace(options.tune, trials_per_task=len(entries)))))
    after = read_task_file(record)
    assert after is not None
    assert after.searched == {entries[0].device_class: len(entries)}
    assert read(step, "info")["measured_now"] == 0
    ran = sorted((entry.record for entry in entries if entry.record), key=lambda each: each.seconds)
    assert {each.trace for each in ran[:5]} == {each.trace for each in after.records}
    assert not journal.exists()


@pytest.mark.nightly
def test_a_machine_that_cannot_build_uses_up_no_trials(step: Step[TuneStep], monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmbuild.stages import tune
    from tvmbuild.tuning import candidate_pool as pool

    with monkeypatch.context() as patch:
        patch.setattr(pool, "build_candidate", _refuse)
        for _ in range(2):
            with pytest.raises(TvmbuildError, match=r"could be built: .*No space left on device"):
                tune.run(step)
    assert not list(Layout(step.root).records("pc").glob("*.json"))
    tune.run(step)
    assert read(step, "info")["measured_now"] == 4
    assert read(step, "info")["covered"] == 1


def _refuse(*_arguments: object) -> str:
    raise OSError(28, "No space left on device")
