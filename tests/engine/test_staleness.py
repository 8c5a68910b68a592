from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Settings, Step, TuneStep
from tvmbuild.engine.file_digests import FileDigests
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.engine.staleness import explain_changes
from tvmbuild.engine.success import Success


@pytest.fixture
def tuned(tmp_path: Path) -> tuple[Step[TuneStep], Success]:
    """A tune step whose single Task has no record, and the state of its success."""
    outputs = FrozenMap({role: tmp_path / f"{role}.json" for role in ("tasks", "schedule", "info")})
    step = Step(
        stage="tune",
        subject="net@pc",
        options=TuneStep("pc", "llvm", FrozenMap(), FrozenMap(), None, LocalDevice(), TuneOptions()),
        outputs=outputs,
        root=tmp_path,
        settings=Settings(tune="never"),
    )
    tasks = [{"key": "0" * 16, "name": "conv2d", "weight": 1}]
    write_json(step.output("tasks"), {"format": 1, "tasks": tasks})
    write_json(step.output("schedule"), {"format": 1, "layout": None, "schedule": {}})
    write_json(step.output("info"), {"uncovered": tasks})
    digests = {role: FileDigests(step).digest(path) for role, path in outputs.items()}
    return step, Success(fingerprint(step), {}, digests)


def test_strict_looks_at_the_uncovered_tasks(tuned: tuple[Step[TuneStep], Success]) -> None:
    step, success = tuned
    assert list(explain_changes(step, success)) == []
    strict = replace(step, settings=Settings(tune="never", strict=True))
    assert list(explain_changes(strict, success)) == ["strict=1: 1 Task without a record"]


def test_strict_does_not_ask_for_what_no_search_can_bring(tuned: tuple[Step[TuneStep], Success]) -> None:
    step, success = tuned
    strict = Settings(tune="never", strict=True)
    gpu = replace(step, options=replace(step.options, kind="cuda", needs_records=False), settings=strict)
    assert "strict" not in "".join(explain_changes(gpu, success))
    assert replace(step, settings=strict).refuses_uncovered
    assert not gpu.refuses_uncovered


def test_a_damaged_output_is_a_reason_and_is_not_read(tuned: tuple[Step[TuneStep], Success]) -> None:
    step, success = tuned
    step.output("info").write_text("{")
    reasons = list(explain_changes(replace(step, settings=Settings(tune="never", strict=True)), success))
    assert len(reasons) == 1
    assert reasons[0].startswith("output info changed: sha256 ")
