"""The attributes of each family, and the impossible attributes of a vulkan target, with the exact message."""

# ruff: noqa: E501, ISC - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.config import load_project
from tvmbuild.config.schema import load_schema
from tvmbuild.config.targets import attribute_names
from tvmbuild.targets.table import target_kind
from tvmbuild.targets.vulkan_families import FAMILIES

TARGET = "targets:\n  nuc:\n    kind: vulkan\n{}    host: {{mtriple: x86_64-linux-gnu, num-cores: 2}}\n"


def test_the_schema_lists_the_families() -> None:
    assert load_schema("targets")["$defs"]["vulkan"]["properties"]["family"]["enum"] == list(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_states_all_that_must_be_stated(family: str, write_project: Callable[..., Path]) -> None:
    (target,) = load_project(write_project(targets=TARGET.format(f"    family: {family}\n"))).targets
    attributes = dict(target.attributes)
    assert attributes == FAMILIES[family]
    assert attributes.keys() >= set(target_kind("vulkan").pinned)
    assert attributes.keys() <= attribute_names("vulkan")
    assert target.unresolved is None


def test_what_the_target_states_goes_before_its_family(write_project: Callable[..., Path]) -> None:
    lines = "    family: nvidia-rtx\n    max_threads_per_block: 512\n    max_push_constants_size: 256\n"
    (target,) = load_project(write_project(targets=TARGET.format(lines))).targets
    expected = {**FAMILIES["nvidia-rtx"], "max_threads_per_block": 512, "max_push_constants_size": 256}
    assert target.attributes == expected


def test_a_family_may_compute_in_16_bits(write_project: Callable[..., Path]) -> None:
    lines = "    family: intel-iris-xe\n    precision: fp16\n"
    (target,) = load_project(write_project(targets=TARGET.format(lines))).targets
    assert target.precision == "fp16"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "    family: intel-irisxe\n",
            'targets.yaml:4:13: targets.nuc.family: "intel-irisxe" is not valid; expected intel-iris-xe, amd-rdna, nvidia-rtx or lavapipe; did you mean "intel-iris-xe"?',
        ),
        (
            "    family: amd-rdna\n    from_device: 0\n",
            "targets.yaml:5:18: targets.nuc.from_device: the target names a family too; expected one of the two: the lock has every attribute",
        ),
        (
            "    family: amd-rdna\n    max_threads_per_block: 64\n",
            "targets.yaml:5:28: targets.nuc.max_threads_per_block: 64 is less than TVM's default schedules take; expected at least 256",
        ),
        (
            "    family: amd-rdna\n    max_shared_memory_per_block: 32\n",
            "targets.yaml:5:34: targets.nuc.max_shared_memory_per_block: 32 is less than every Vulkan device has; expected at least 16384",
        ),
        (
            "    family: amd-rdna\n    max_num_threads: 2048\n",
            "targets.yaml:5:22: targets.nuc.max_num_threads: 2048 is more than max_threads_per_block; expected at most 1024",
        ),
        (
            "    family: amd-rdna\n    supports_int64: false\n",
            "targets.yaml:5:21: targets.nuc.supports_int64: a model's indices are int64; expected true; for a GPU without 64-bit integers TVM has no code of a model imported from ONNX",
        ),
    ],
)
def test_attributes_that_cannot_be(lines: str, message: str, load_mistakes: Callable[..., list[str]]) -> None:
    assert load_mistakes(targets=TARGET.format(lines)) == [message]


def test_a_misspelt_family_is_one_mistake(load_mistakes: Callable[..., list[str]]) -> None:
    (message,) = load_mistakes(targets=TARGET.format("    famly: amd-rdna\n"))
    assert message.endswith('did you mean "family"?')
