from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.config import load_project
from tvmbuild.config.target_lock import TargetLock, write_lock

NATIVE = "targets:\n  me: {kind: llvm, mcpu: native, num-cores: 2}\n"
GPU = "targets:\n  me: {kind: vulkan, from_device: 0, thread_warp_size: 32, host: {mcpu: native, num-cores: 2}}\n"
REMEDY = "run `tvmbuild target lock me` on the machine that has it"


@pytest.mark.parametrize(
    ("targets", "asked"),
    [(NATIVE, "mcpu: native"), (GPU, "from_device: 0 and host.mcpu: native")],
)
def test_without_a_lock_the_target_is_unresolved(targets: str, asked: str, write_project: Callable[..., Path]) -> None:
    (target,) = load_project(write_project(targets=targets)).targets
    assert target.unresolved == f"{asked} is not resolved yet: {REMEDY}"
    assert "mcpu" not in dict(target.cpu)


def test_native_is_what_the_lock_says(write_project: Callable[..., Path]) -> None:
    root = write_project(targets=NATIVE)
    lock = TargetLock(FrozenMap({"mattr": ("-amx-tile",), "mcpu": "emeraldrapids", "mtriple": "x86_64-linux-gnu"}))
    write_lock(Layout(root).target_lock("me"), lock, FrozenMap({"mcpu": "native"}))
    (target,) = load_project(root).targets
    assert target.unresolved is None
    assert tuple(target.attributes.items()) == (*lock.attributes.items(), ("num-cores", 2))


def test_targets_yaml_goes_before_the_lock(write_project: Callable[..., Path]) -> None:
    root = write_project(targets=GPU)
    lock = TargetLock(
        FrozenMap({"supports_int64": True, "thread_warp_size": 8}),
        FrozenMap({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu"}),
    )
    write_lock(Layout(root).target_lock("me"), lock, FrozenMap({"from_device": 0, "host.mcpu": "native"}))
    (target,) = load_project(root).targets
    assert target.unresolved is None
    assert list(target.attributes.items()) == [("supports_int64", True), ("thread_warp_size", 32)]
    assert list(target.host.items()) == [("mcpu", "znver4"), ("mtriple", "x86_64-linux-gnu"), ("num-cores", 2)]


def test_lock_made_for_another_device_does_not_count(write_project: Callable[..., Path]) -> None:
    root = write_project(targets=NATIVE)
    write_lock(Layout(root).target_lock("me"), TargetLock(), FrozenMap({"from_device": 1}))
    (target,) = load_project(root).targets
    assert target.unresolved == f"target.lock.json of me does not answer mcpu: native: {REMEDY}"


@pytest.mark.parametrize(
    ("content", "what"),
    [("{", "is damaged"), ("[]", "is damaged"), ('{"format": 9}', "has another format"), ("\udcff", "is damaged")],
)
def test_damaged_lock(content: str, what: str, write_project: Callable[..., Path]) -> None:
    root = write_project(targets=NATIVE)
    path = Layout(root).target_lock("me")
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode(errors="surrogateescape"))
    (target,) = load_project(root).targets
    assert target.unresolved == f"target.lock.json of me {what}: {REMEDY}"
