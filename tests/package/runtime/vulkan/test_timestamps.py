"""Operators of a package by the device's own clock: each kernel once, with the function that launched it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels_model import write_model_of_kernels
from small_package import ANY_X86, build_package
from vulkan_blob import GROUP
from vulkan_tensors import ScaleAndAdd, upload

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.profile import Event
from tvmbuild.package.runtime import library
from tvmbuild.package.runtime.profiler import profile_operators
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.vulkan import timestamps
from tvmbuild.package.runtime.vulkan.timestamps import DeviceClock
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.vulkan


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Make the device report 1 µs for its first operation, then 2, 4, 8, …: a sum shows its parts. Names, by run."""
    runs: list[list[str]] = []

    def call(name: str, *arguments: Any) -> Any:
        result = library.call(name, *arguments)
        if name != "tvmbuild_vulkan.profile_stop":
            return result
        runs.append([each["name"] for each in json.loads(result)])
        return json.dumps([{**each, "us": 2.0**place} for place, each in enumerate(json.loads(result))])

    monkeypatch.setattr(timestamps, "call", call)
    return runs


class Calls:
    """The behaviour of the virtual machine: it notifies the hook of a call, before and after it."""

    def __init__(self, kernels: set[str] | None) -> None:
        self.waits = 0
        self.clock = DeviceClock(0, self._wait, kernels)

    def _wait(self) -> None:
        self.waits += 1

    def begin(self, name: str) -> None:
        self.clock.note(None, name, True, None)

    def end(self, name: str) -> None:
        self.clock.note(None, name, False, None)


def run_mixed(calls: Calls) -> list[Event]:
    compute, ones = ScaleAndAdd(), upload(np.ones(GROUP, "float32"))
    total, other = upload(np.zeros(GROUP, "float32")), upload(np.zeros(GROUP, "float32"))

    def run() -> None:
        calls.begin("vm.builtin.alloc_tensor")
        calls.end("vm.builtin.alloc_tensor")
        calls.begin("two")
        compute(ones, ones, total)
        compute(total, ones, total)
        calls.end("two")
        calls.begin("vm.builtin.copy")
        library.call("runtime.TVMTensorCopyFromTo", total, other)
        calls.end("vm.builtin.copy")
        calls.begin("loop")
        compute(other, ones, other)
        calls.begin("inner")
        compute(other, ones, other)
        calls.end("inner")
        compute(other, ones, other)
        calls.end("loop")
        calls.begin("none")
        calls.end("none")

    return calls.clock.run(run)


def test_each_operation_belongs_to_the_innermost_call(told: list[list[str]]) -> None:
    calls = Calls({"two", "loop", "inner", "none"})
    for _ in range(2):
        assert run_mixed(calls) == [
            ("two", 1000 + 2000),
            ("vm.builtin.copy", 4000),
            ("loop", 8000 + 32_000),
            ("inner", 16_000),
            ("none", 0),
        ]
    kernel = "scale_and_add"
    assert told == [[kernel, kernel, "copy", kernel, kernel, kernel]] * 2
    assert calls.waits == 0


def test_a_function_of_the_host_has_its_own_time_and_waits_for_the_device(told: list[list[str]]) -> None:
    calls = Calls({"two", "loop", "none"})
    events = dict(run_mixed(calls))
    assert calls.waits == 2
    assert 0 < events.pop("inner") != 16_000
    assert events == {"two": 3000, "vm.builtin.copy": 4000, "loop": 8000 + 32_000, "none": 0}
    assert len(told) == 1


def test_a_package_that_does_not_name_its_kernels_has_the_devices_times(told: list[list[str]]) -> None:
    calls = Calls(None)
    assert dict(run_mixed(calls))["inner"] == 16_000
    assert calls.waits == 0
    assert len(told) == 1


def test_a_run_that_fails_ends_the_profile(told: list[list[str]]) -> None:
    calls = Calls(set())

    def fail() -> None:
        raise ValueError("this run fails")

    with pytest.raises(ValueError, match="this run fails"):
        calls.clock.run(fail)
    assert told == [[]]
    compute, ones = ScaleAndAdd(), upload(np.ones(GROUP, "float32"))
    compute(ones, ones, upload(np.ones(GROUP, "float32")))
    assert json.loads(library.call("tvmbuild_vulkan.profile_stop")) == []


@pytest.mark.compiler
def test_a_profile_has_every_kernel_of_the_package_once(tmp_path: Path, told: list[list[str]]) -> None:
    with Session(build_package(write_model_of_kernels(tmp_path), tmp_path, DEVICE, "vulkan", ANY_X86)) as session:
        profile = profile_operators(session, {"x": np.ones((8, 64), "float32")}, repeat=3)
    assert profile.clock == "device"
    assert all(names == told[0] for names in told)
    kernels = [each.partition("_kernel")[0] for each in told[0]]
    assert kernels == ["matmul", "matmul", "softmax", "softmax", *["scatter"] * 2, "topk_chunks"]
    assert {(row.function, row.calls, row.us) for row in profile.rows} == {
        ("matmul", 2, 1 + 2),
        ("softmax", 2, 4 + 8),
        ("scatter", 1, 16 + 32),
        ("topk_chunks", 1, 64),
    }


DEVICE = FrozenMap(sorted(FAMILIES["lavapipe"].items()))
