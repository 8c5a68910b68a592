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


def run(folder: Path, *pictures: str) -> dict[str, list[tuple[str, float, list[int]]]]:
    """Run the script as the README does; return its output for each picture: label, score, box."""
    done = run_in_example(folder, "detect.py", PACKAGE, "build/found", *pictures)
    assert done.returncode == 0, done.stdout
    found: dict[str, list[tuple[str, float, list[int]]]] = {}
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            things = found.setdefault(line.split(" -> ")[0], [])
            continue
        match = re.fullmatch(r"  (\d\.\d\d)  (.{12}) +(\d+) +(\d+) +(\d+) +(\d+)", line)
        assert match is not None, line
        things.append((match[2].strip(), float(match[1]), [int(side) for side in match.groups()[2:]]))
    return found


def share(box: list[int], other: tuple[int, int, int, int]) -> float:
    """Return intersection over union."""
    sides = [min(box[i + 2], other[i + 2]) - max(box[i], other[i]) for i in (0, 1)]
    shared = max(sides[0], 0) * max(sides[1], 0)
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (box, other)]
    return shared / (sum(areas) - shared)


@pytest.mark.nightly
@pytest.mark.compiler
def test_finds_the_cat_and_the_person(folder: Path) -> None:
    coverage = read_metadata(folder / PACKAGE).coverage
    assert coverage.covered == coverage.tasks > 0, "the example's records no longer fit"
    pictures = ("../classify/chelsea.png", "astronaut.png")
    cat, person = (run(folder, *pictures)[picture] for picture in pictures)
    assert cat[0][0] == "cat"
    assert share(cat[0][2], (0, 0, 400, 300)) > 0.6, "as a person sees it"
    assert person[0][0] == "person"
    assert share(person[0][2], (22, 15, 365, 512)) > 0.6
    for picture, (label, _, box) in zip(pictures, (cat[0], person[0]), strict=True):
        before, after = (Image.open(folder / path) for path in (picture, f"build/found/{Path(picture).name}"))
        assert before.size == after.size, label
        changed = np.any(np.asarray(before.convert("RGB")) != np.asarray(after), axis=2)
        left, top, right, bottom = box
        middle = (top + bottom) // 2
        edge = left if left > 0 else min(right, before.width - 1)
        assert changed[middle, max(edge - 1, 0) : edge + 2].any(), "no line where the box's side is"
        assert 0.001 < changed.mean() < 0.2


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.toolchain
def test_cpp_prints_pythons_boxes(folder: Path, tmp_path: Path) -> None:
    build_by_cmake(tmp_path, source=FOLDER)
    program = tmp_path / "build" / "detect"
    picture = str(folder / "astronaut.png")
    done = run_program(program, folder / PACKAGE, picture)
    if "built without libpng" in done.stderr:
        pytest.skip("neither libpng nor stb_image was found")
    assert (done.returncode, done.stderr) == (0, "")
    told = run_in_example(folder, "detect.py", PACKAGE, "build/found", picture).stdout
    first, *boxes = done.stdout.splitlines()
    assert (first, boxes) == (picture, told.splitlines()[1:])
    assert "person" in boxes[0]
    done = run_program(program, folder / PACKAGE, folder / "../classify/chelsea.png")
    assert done.returncode == 1
    known = "rgb8 [512, 512, 3] of 786432 bytes, rgb8 [1024, 1024, 3] of 3145728 bytes"
    assert done.stderr.endswith(f"451 pixels wide; it takes {known}\n")


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.shared
def test_finds_the_dog_the_bicycle_and_the_car(folder: Path, shared_images: Path) -> None:
    picture = str(shared_images / "dog.jpg")
    things = run(folder, picture)[picture]
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
