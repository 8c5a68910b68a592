"""Networks lowered for six targets keep the keys of their Tasks, by which records are found."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from task_key_files import list_files
from task_keys import COMMAND, KEPT, TARGETS, Keys, compare, explain_changes, explain_versions, list_small, read_kept

SMALL_MOST = 300_000
PRINT = """
import sys
from task_keys import find_keys
for cell in sys.argv[1:]:
    print(find_keys(*cell.split("@")).line)
"""


def check(network: str) -> None:
    changes = explain_changes(network)
    hint = f"If that is meant, since it orphans every user's records of these Tasks: {COMMAND} {network}"
    assert not changes, "\n".join([*changes, explain_versions(), hint])


@pytest.mark.sampled(11)
@pytest.mark.compiler
@pytest.mark.parametrize("network", list_small())
def test_small_networks_keep_their_tasks(network: str) -> None:
    check(network)


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.parametrize("network", [pytest.param(name, id=name) for name in list_files()])
def test_real_networks_keep_their_tasks(network: str) -> None:
    if not list_files()[network]:
        pytest.skip("shared: its file is not beside the project")
    check(network)


@pytest.mark.compiler
def test_keys_are_those_of_any_process_and_machine() -> None:
    cells = [f"{network}@{target}" for network in ("key_cache", "int8_moved", "lstm") for target in TARGETS]
    cells = [cell for cell in cells if cell in read_kept()["cells"]]
    lines = [read_kept()["cells"][cell] for cell in cells]
    for seed, features in (("1", ""), ("2", "X86_V4")):
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed, "TVM_NUM_THREADS": seed}
        environment |= {"NPY_DISABLE_CPU_FEATURES": features} if features else {}
        command = [sys.executable, "-W", "ignore", "-c", PRINT, *cells]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == lines


def test_every_network_and_target_is_kept() -> None:
    networks = {cell.partition("@")[0] for cell in read_kept()["cells"]}
    assert networks == {*list_small(), *list_files()}
    assert {cell.partition("@")[2] for cell in read_kept()["cells"]} == set(TARGETS)
    assert KEPT.stat().st_size < SMALL_MOST


def test_a_difference_names_network_target_and_tasks() -> None:
    before = Keys({"aaaaaaaa00000000": "conv2d", "bbbbbbbb00000000": "pool"}, "m", "NHWC:1")
    after = Keys({"cccccccc00000000": "conv2d_add", "bbbbbbbb00000000": "pool"}, "m", "NHWC:1")
    kept = {"cells": {"net@pi4": before.line}, "tasks": {"aaaaaaaa": "conv2d", "bbbbbbbb": "pool"}}
    assert compare("net@pi4", before, kept) is None
    assert compare("net@pi4", after, kept) == "net@pi4:\n  appeared cccccccc conv2d_add\n  disappeared aaaaaaaa conv2d"
    longer = Keys({"aaaaaaaa00000001": "conv2d", "bbbbbbbb00000000": "pool"}, "m", "NHWC:1")
    assert compare("net@pi4", longer, kept) == "net@pi4:\n  the keys' digest is another"
    assert "another order" in (compare("net@pi4", Keys(before.tasks, "n", "NHWC:1"), kept) or "")
