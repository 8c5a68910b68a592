"""The detect example: built from its records, it finds the objects in its pictures and draws boxes around them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from cpp_programs import build_by_cmake, run_program
from example_project import copy_example, run_in_example
from PIL import Image

import tvmbuild
from tvmbuild.package.archive import read_metadata

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "detect"
COFFEE = "../classify/coffee.png"
PACKAGE = "build/cells/yolov3_tiny@x86-64-v3/yolov3_tiny-x86-64-v3.tar"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """A copy of the example, beside the one whose picture it shares, with its package built."""
    copy = copy_example(project_root, tmp_path_factory.mktemp("detect"), "detect")
    (copy.parent / "classify").symlink_to(FOLDER.parent / "classify")
    done = run_in_example(copy, "-m", "tvmbuild", "compile", "tune=never")
    if "pip does not reach its package index" in done.stdout:
        pytest.skip("needs the package index, which has the weights")
    assert done.returncode == 0, done.stdout
    return copy


LINE = re.compile(r"(\d\.\d\d)  (.{12}) +(\d+) +(\d+) +(\d+) +(\d+)")


def run(folder: Path, picture: Path | str) -> tuple[str, list[tuple[str, float, list[int]]]]:
    """Run the script as the README does; return its output, and for each object label, score and corners."""
    done = run_in_example(folder, "detect.py", PACKAGE, str(picture), "build/found.png")
    assert done.returncode == 0, done.stdout
    things = []
    for line in done.stdout.splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        x, y, width, height = map(int, match.groups()[2:])
        things.append((match[2].strip(), float(match[1]), [x, y, x + width, y + height]))
    return done.stdout, things


def share(box: list[int], other: tuple[int, int, int, int]) -> float:
    """Return intersection over union."""
    sides = [min(box[i + 2], other[i + 2]) - max(box[i], other[i]) for i in (0, 1)]
    shared = max(sides[0], 0) * max(sides[1], 0)
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (box, other)]
    return shared / (sum(areas) - shared)


@pytest.mark.nightly
@pytest.mark.compiler
def test_finds_the_cup_and_draws_its_box(folder: Path) -> None:
    coverage = read_metadata(folder / PACKAGE).coverage
    assert coverage.covered == coverage.tasks > 0, "the example's records no longer fit"
    _, ((label, _, box), *_) = run(folder, COFFEE)
    assert label == "cup"
    assert share(box, (120, 20, 520, 350)) > 0.6, "as a person sees it"
    before, after = (np.asarray(Image.open(folder / path).convert("RGB")) for path in (COFFEE, "build/found.png"))
    changed = np.any(before != after, axis=2)
    left, top, _, bottom = box
    assert changed[(top + bottom) // 2, left - 1 : left + 2].any(), "no line where the box's side is"
    assert 0.001 < changed.mean() < 0.2


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.toolchain
def test_cpp_prints_pythons_boxes(folder: Path, tmp_path: Path) -> None:
    build_by_cmake(tmp_path, source=FOLDER)
    program = tmp_path / "build" / "detect"
    done = run_program(program, folder / PACKAGE, folder / COFFEE)
    if "built without libpng" in done.stderr:
        pytest.skip("neither libpng nor stb_image was found")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(folder, COFFEE)[0] != ""
    done = run_program(program, folder / PACKAGE, folder / "../classify/chelsea.png")
    assert done.returncode == 1
    assert done.stderr.endswith("451 pixels wide; it takes rgb8 [400, 600, 3] of 720000 bytes\n")


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.shared
def test_finds_the_dog_the_bicycle_and_the_car(folder: Path, shared_images: Path) -> None:
    _, things = run(folder, shared_images / "dog.jpg")
    found = {label: box for label, _, box in reversed(things)}  # the likeliest of each
    assert set(found) == {"dog", "bicycle", "car"}
    assert share(found["dog"], (130, 222, 310, 540)) > 0.5
    assert share(found["car"], (468, 75, 688, 170)) > 0.5
    assert share(found["bicycle"], (125, 145, 567, 420)) > 0.5


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.shared
def test_computes_what_another_converter_made(folder: Path, shared_models: Path) -> None:
    """The other converter writes a whole map of rows for each anchor, this one a row for each anchor at each place."""
    other = onnxruntime.InferenceSession(
        str(shared_models / "yolov3_tiny_decoded.onnx"), providers=["CPUExecutionProvider"]
    )
    with tvmbuild.load(folder / PACKAGE) as session:
        for path in (folder / "astronaut.png", folder / "../classify/chelsea.png"):
            picture = session.preprocess(path)
            got = session.run({"picture": picture})["detections"]
            (want,) = other.run(None, {"input": picture})
            maps = [part.reshape(1, 3, -1, 85).swapaxes(1, 2).reshape(1, -1, 85) for part in np.split(want, [507], 1)]
            np.testing.assert_allclose(got, np.concatenate(maps, axis=1), rtol=1e-2, atol=1e-2)
