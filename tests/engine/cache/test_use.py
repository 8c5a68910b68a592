"""The use of cached outputs of a tune step, which also depends on its record files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, NoDevice
from tvmbuild.base.files import canonical_json, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import CacheSpec, TuneOptions
from tvmbuild.base.steps import AnyStep, Settings, Step, TuneMode, TuneStep
from tvmbuild.engine.cache.use import CacheUse, restore_outputs, store_outputs
from tvmbuild.engine.file_digests import Digest, FileDigests
from tvmbuild.records.quarantine import keep_damaged
from tvmbuild.records.selection import resolved_target
from tvmbuild.records.store import record_path

TASKS = [{"key": "0" * 16, "name": "conv2d", "weight": 1}]


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Digest]:
    (tmp_path / "model.onnx").write_bytes(b"model")
    return {"model": FileDigests(_make_step(tmp_path)).digest(tmp_path / "model.onnx")}


def _restore(step: AnyStep, inputs: Mapping[str, Digest]) -> CacheUse:
    use = CacheUse()
    restore_outputs(step, inputs, use)
    return use


def _make_step(
    root: Path, mode: TuneMode = "never", device: DeviceSpec | None = None, *, strict: bool = False
) -> Step[TuneStep]:
    return Step(
        stage="tune",
        subject="net@pc",
        options=TuneStep("pc", "llvm", FrozenMap(), FrozenMap(), None, device or LocalDevice(), TuneOptions()),
        inputs=FrozenMap({"model": root / "model.onnx"}),
        outputs=FrozenMap({role: root / "build" / f"{role}.json" for role in ("tasks", "schedule", "info")}),
        root=root,
        settings=Settings(mode, strict, CacheSpec(root / "cache")),
    )


def _store(
    step: Step[TuneStep],
    inputs: dict[str, Digest],
    schedule: dict[str, object] | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Store a tune step's outputs, then remove them."""
    _write(step, schedule)
    use = _restore(replace(step, settings=Settings()), inputs)
    store_outputs(step, inputs, {role: FileDigests(step).digest(path) for role, path in step.outputs.items()}, use)
    assert not use.restored
    assert use.warnings == list(warnings)
    for path in step.outputs.values():
        path.unlink()


def _write(step: Step[TuneStep], schedule: dict[str, object] | None = None) -> None:
    write_json(step.output("tasks"), {"format": 1, "tasks": TASKS})
    write_json(step.output("schedule"), {"format": 1, "layout": None, "schedule": schedule or {}})
    write_json(step.output("info"), {"uncovered": TASKS, "quarantined": []})


@pytest.mark.parametrize(
    ("mode", "device", "strict", "restored"),
    [
        ("never", "local", False, True),
        ("never", "local", True, False),
        ("missing", "local", False, False),
        ("missing", "none", False, True),
        ("full", "local", False, False),
        ("full", "none", False, True),
    ],
)
def test_what_this_run_asks_for_decides(
    tmp_path: Path, inputs: dict[str, Digest], mode: TuneMode, device: str, *, strict: bool, restored: bool
) -> None:
    """One Task that no record covers is to be searched, to be reported, or to be ignored."""
    spec = NoDevice() if device == "none" else LocalDevice()
    step = _make_step(tmp_path, mode, spec, strict=strict)
    _store(step, inputs)
    assert _restore(step, inputs).restored is restored
    assert [path.exists() for path in step.outputs.values()] == [restored] * 3
    assert list((tmp_path / "build").glob(".*")) == []


def test_a_schedule_that_the_records_do_not_elect_is_passed_over(tmp_path: Path, inputs: dict[str, Digest]) -> None:
    step = _make_step(tmp_path)
    _store(step, inputs, {"0" * 16: {"trace": {}}})
    assert not _restore(step, inputs).restored
    _store(step, inputs)
    _store(step, inputs, {"0" * 16: {"trace": {"later": 1}}})
    assert _restore(step, inputs).restored
    assert step.output("schedule").read_text().count("trace") == 0


def test_other_inputs_are_another_key(tmp_path: Path, inputs: dict[str, Digest]) -> None:
    step = _make_step(tmp_path)
    _store(step, inputs)
    size, mtime, sha256 = inputs["model"]
    assert _restore(step, {"model": (size, mtime + 1, sha256)}).restored
    assert not _restore(step, {"model": (size, mtime, "0" * 64)}).restored
    assert not _restore(step, inputs | {"external data w": inputs["model"]}).restored


def test_strict_restores_what_no_search_can_cover(tmp_path: Path, inputs: dict[str, Digest]) -> None:
    step = _make_step(tmp_path, strict=True)
    gpu = replace(step, options=replace(step.options, kind="cuda", needs_records=False))
    _store(gpu, inputs)
    assert _restore(gpu, inputs).restored


def test_what_is_in_quarantine_is_told_by_the_clone_that_found_it(tmp_path: Path, inputs: dict[str, Digest]) -> None:
    step = _make_step(tmp_path)
    _write(step)
    write_json(step.output("info"), {"uncovered": TASKS, "quarantined": [{"key": "0" * 16}]})
    store_outputs(
        step, inputs, {role: FileDigests(step).digest(path) for role, path in step.outputs.items()}, CacheUse()
    )
    assert not _restore(step, inputs).restored, "another clone's quarantine"

    _store(step, inputs)
    records = Layout(tmp_path).records("pc")
    record_path(records, "0" * 16).parent.mkdir(parents=True)
    record_path(records, "0" * 16).write_text("{")
    assert not _restore(step, inputs).restored, "a run has to say what is damaged"
    target = canonical_json(resolved_target(step.options).to_json())
    (damage,) = keep_damaged(records, ["0" * 16], target).values()
    assert damage
    assert not _restore(step, inputs).restored, "it is still in quarantine"
    record_path(records, "0" * 16).unlink()
    assert _restore(step, inputs).restored


def test_a_step_larger_than_the_limit_is_told(tmp_path: Path, inputs: dict[str, Digest]) -> None:
    step = _make_step(tmp_path)
    step = replace(step, settings=replace(step.settings, cache=CacheSpec(tmp_path / "cache", 500)))
    said = f"the cache {tmp_path / 'cache'} is limited to 0.0005 MB; larger steps are not kept"
    _store(step, inputs, {"0" * 16: {"trace": "x" * 500}}, [said])
    assert not _restore(step, inputs).restored
