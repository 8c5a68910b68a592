"""The text example: its package reads drawn lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from example_project import copy_example, run_in_example
from PIL import Image

import tvmbuild
from tvmbuild.package.results import Text

PACKAGE = "build/cells/reader@x86-64-v3/reader-x86-64-v3.tar"
LINES = ("Robots read 3 lines of text", "Hello, World! 2026", "42.5 km/h")


@pytest.mark.nightly
@pytest.mark.compiler
def test_reads_drawn_lines(project_root: Path, tmp_path: Path) -> None:
    folder = copy_example(project_root, tmp_path, "text")
    done = run_in_example(folder, "-m", "tvmbuild", "compile", "tune=never")
    if "pip does not reach its package index" in done.stdout:
        pytest.skip("needs the package index, which has the network")
    assert done.returncode == 0, done.stdout
    with tvmbuild.load(folder / PACKAGE) as session:
        for line in LINES:
            assert run_in_example(folder, "draw_line.py", line, "build/line.png").returncode == 0
            (found,) = session.run_picture(folder / "build/line.png")
            assert isinstance(found, Text)
            assert found.text.strip() == line  # the margins may be spaces
            assert found.score > 0.9
        picture = Image.open(folder / "build/line.png").convert("RGB")
        frame = session.empty_frame()
        frame[...] = np.asarray(picture.resize((480, 48)))[:, :, ::-1]
        assert len(session.run_frame(frame)) == 1
