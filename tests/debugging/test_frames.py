"""`debug` on a package with frames whose network is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from frame_cells import HERE, make_cell

from tvmbuild.base.specs import Tolerance
from tvmbuild.debugging import builds
from tvmbuild.debugging.builds import Bench, Build
from tvmbuild.debugging.examine import examine
from tvmbuild.debugging.inquiry import Case, Wish
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.preparing.reference import read_reference
from tvmbuild.records.schedule import NO_RECORDS

pytestmark = pytest.mark.compiler


def test_frames_are_compared_if_the_network_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_cell(tmp_path)
    model, reference = onnx.load(folder / "model.onnx"), read_reference(folder / "reference.npz")
    build, bench = Build(HERE, NO_RECORDS), Bench(LOCAL, 1)
    case = Case("net@here", model, folder / "net-here.tar", build, bench, reference, Tolerance())
    right = examine(case, Wish(tmp_path / "debug"))
    assert (right.problem, right.suspect, right.frames_are_wrong) == (None, None, False)
    assert right.frames is not None
    assert right.frames.startswith("frames and results are right: ")

    def read_wrongly(package: Path) -> PackageInfo:
        info = read_metadata(package)
        assert info.preprocess is not None
        return replace(info, preprocess=replace(info.preprocess, scale=0.5))

    monkeypatch.setattr(builds, "read_metadata", read_wrongly)
    wrong = examine(case, Wish(tmp_path / "debug"))
    assert (wrong.problem, wrong.suspect, wrong.frames_are_wrong) == (None, None, True)
    assert wrong.frames is not None
    assert "net@here: the package prepares a frame wrongly (bgr8 [50, 80, 3], bilinear)" in wrong.frames
