"""The person example: its package finds the points and the pixels of the person in a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from example_project import copy_example, run_in_example
from PIL import Image

PACKAGE = "build/cells/person@x86-64-v3/person-x86-64-v3.tar"
PLACES = {"nose": (234, 117), "left eye": (254, 103), "right eye": (216, 99), "mouth (left)": (242, 141)}
"""The places by the network's other output, its regression."""


@pytest.mark.nightly
@pytest.mark.compiler
def test_cuts_a_person_out(project_root: Path, tmp_path: Path) -> None:
    folder = copy_example(project_root, tmp_path, "person")
    done = run_in_example(folder, "-m", "tvmbuild", "compile", "tune=never")
    if "pip does not reach its package index" in done.stdout:
        pytest.skip("needs the package index, which has the network")
    assert done.returncode == 0, done.stdout
    picture = project_root / "examples/detect/astronaut.png"
    done = run_in_example(folder, "person.py", PACKAGE, str(picture), "build/person.png")
    assert done.returncode == 0, done.stdout
    found = {line[7:25].strip(): tuple(map(int, line[25:].split())) for line in done.stdout.splitlines()}
    for name, place in PLACES.items():
        assert found[name] == pytest.approx(place, abs=16), name  # two cells of a heatmap
    assert "left wrist" not in found
    drawn = np.asarray(Image.open(folder / "build/person.png"))
    assert (drawn[:100, :100] == 255).all(), "the flag is not the person"
    assert 0.5 < (drawn == 255).all(axis=2).mean() < 0.6
