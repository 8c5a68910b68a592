"""Two emulated boards at once, each at its own worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dask_cluster import DaskCluster, list_workers
from doit_project import REAL, write_project
from emulated_board import the_board

pytestmark = [pytest.mark.nightly, pytest.mark.compiler, pytest.mark.emulator, pytest.mark.timeout(1200)]

TARGETS = """\
defaults: {device: {qemu: aarch64}}
targets:
  pi4: {kind: llvm, mcpu: cortex-a72, mtriple: aarch64-linux-gnu, num-cores: 2}
  pi5: {kind: llvm, mcpu: cortex-a76, mtriple: aarch64-linux-gnu, num-cores: 2}
"""


@pytest.mark.parametrize("quick", [pytest.param("real", marks=REAL)], indirect=True, scope="module")
def test_two_emulated_boards(cluster: DaskCluster, tmp_path: Path, digits: Path) -> None:
    the_board()
    project = write_project(tmp_path, digits, targets=TARGETS)
    ran = project.tvmbuild("build", "--scheduler", cluster.address)
    assert ran.code == 0, ran.output
    workers = list_workers(ran)
    assert workers["benchmark:digits@pi4"] != workers["benchmark:digits@pi5"], ran.output
    for target in ("pi4", "pi5"):
        result = json.loads((project.root / f"build/cells/digits@{target}/result.json").read_text())
        assert (result["emulated"], result["machine"]["cpu"]) == (True, "qemu aarch64")
        assert 0 < result["max_abs_error"] < 1e-3
    again = project.doit()
    assert (again.code, again.steps) == (0, []), again.output
