"""The command `tvmbuild explain kernel`: the source of each kernel's schedule, and why other rules did not make it."""

from __future__ import annotations

from pathlib import Path

import pytest
from doit_project import DoitProject, write_project


@pytest.fixture
def project(tmp_path: Path, digits: Path) -> DoitProject:
    return write_project(tmp_path, digits)


@pytest.mark.compiler
def test_each_kernel_says_which_rule_made_its_schedule(project: DoitProject) -> None:
    early = project.tvmbuild("explain", "kernel", "digits@v3")
    assert early.code == 1
    assert "Run `doit compile:digits@v3` first." in early.output
    assert project.doit("compile:digits@v3", "tune=never").code == 0
    ran = project.tvmbuild("explain", "kernel", "digits@v3", "Conv2D")
    assert ran.code == 0, ran.output
    lines = ran.output.splitlines()
    assert lines[0].startswith("conv2d")
    assert lines[0].endswith("cpu.tile.schedule_tiled (conv2d_nhwc)")
    assert "  not cpu.injective.schedule_injective (conv2d_nhwc): it is a reduction" in lines
    missing = project.tvmbuild("explain", "kernel", "digits@v3", "lstm")
    assert missing.code == 1
    assert "no kernel of digits@v3 has 'lstm' in its name" in missing.output


def test_a_wrong_cell_is_told_with_the_nearest(project: DoitProject) -> None:
    ran = project.tvmbuild("explain", "kernel", "digit@v3")
    assert ran.code == 1
    assert "Did you mean digits@v3?" in ran.output
    assert "`tvmbuild explain kernel` needs a cell" in project.tvmbuild("explain", "kernel").output
