"""`tvmbuild run --frame`: results of a picture and of a camera's bytes, as lines, as JSON and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from detector_nets import add_factor, make_detector
from PIL import Image
from small_package import ANY_X86, change_package

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import (
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Raw,
    Segmentation,
    is_in_input,
)
from tvmbuild.base.postprocess_specs import Text as TextResult
from tvmbuild.base.postprocess_specs import Vector as VectorResult
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.cli import main
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.results import Results
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "net.tar"
    model = make_detector([[1, 6, 50]], (32, 32)).SerializeToString()
    frames = (Frame(24, 40, "nv12"), Frame(24, 40, "bgr8"))
    options = BuildOptions("net", preprocess=Preprocess(), frames=frames, postprocess=(Boxes("yolov8", overlap=0.1),))
    write_package(path, build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    return path


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "dog.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8)).save(path)
    return path


def read(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


def run(*words: str | Path) -> int:
    return main(["run", *map(str, words)])


def test_a_picture_and_its_bytes(package: Path, picture: Path, tmp_path: Path, capsys: Capture) -> None:
    drawn, frame = tmp_path / "out.JPG", tmp_path / "frame.npy"
    assert run(package, "--frame", picture, "--json", "--draw", drawn) == 0
    found = json.loads(capsys.readouterr().out)
    pixels = read(picture)
    np.save(frame, pixels[:, :, ::-1])
    with Session(package) as session:
        assert found == [each.as_dict() for each in session.run_picture(pixels)]
    assert found[0].keys() == {"x", "y", "width", "height", "score", "index", "label"}
    assert read(drawn).shape == (24, 40, 3)
    assert np.abs(read(drawn).astype(int) - pixels).max() > 50
    assert run(package, "--frame", frame, "--json") == 0
    assert json.loads(capsys.readouterr().out) == found
    assert run(package, "--frame", picture) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["score", "class", "x", "y", "width", "height"]
    assert len(lines) == 2 + len(found)
    assert run(package, "--frame", picture, "--score", "1e9") == 0
    assert "nothing found" in capsys.readouterr().out


def test_what_cannot_be_a_frame(package: Path, picture: Path, tmp_path: Path, capsys: Capture) -> None:
    frame = tmp_path / "frame.npy"
    np.save(frame, np.zeros((5, 5, 3), np.uint8))
    raw = tmp_path / "frame.nv12"
    raw.write_bytes(bytes(1441))
    for words, message in (
        (("--frame", frame), "net takes no frame [5, 5, 3]"),
        (("--frame", raw), "bytes; net takes nv12 [36, 40] of 1440 bytes, bgr8 [24, 40, 3] of 2880 bytes"),
        (("--frame", tmp_path / "none.raw"), "none.raw cannot be read: No such file or directory"),
        (("--frame", tmp_path / "none.png"), "cannot be read as a picture"),
        (("--frame", picture, "--draw", tmp_path / "x.txt"), "x.txt cannot be written as a picture"),
        (("--frame", picture, "--draw", tmp_path / "no" / "x.png"), "x.png cannot be written as a picture"),
        (("--frame", picture, "--device", "qemu:aarch64"), "--frame runs only on this machine"),
        (("--frame", picture, "--print-time"), "--print-time cannot be combined with --frame"),
        (("--frame", picture, "--encoding", "bgr8"), "--encoding is for a camera's bytes, in an .npy or .raw"),
        (
            ("--draw", tmp_path / "x.png"),
            "--frames belong to --frame and --camera",
        ),
    ):
        assert run(package, *words) == 1, message
        told = capsys.readouterr()
        assert message in told.err
        assert not told.out, "it ran first"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dog.png", "frame.npy", "frame.nv12"]


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package whose frames have gaps between their rows, and are resized in another way than pictures."""
    path = tmp_path_factory.mktemp("padded") / "net.tar"
    model = make_detector([[1, 6, 50]], (32, 32)).SerializeToString()
    frames = (Frame(24, 40, "nv12", "bilinear", 64), Frame(24, 40, "bgr8", "bilinear", 128))
    options = BuildOptions("net", preprocess=Preprocess(), frames=frames, postprocess=(Boxes("yolov8", overlap=0.1),))
    write_package(path, build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    return path


def test_bytes_with_gaps_are_drawn(padded: Path, picture: Path, tmp_path: Path, capsys: Capture) -> None:
    """A picture of the frame's size goes the way of the frame, and its bytes alone are drawn as the picture is."""
    pixels, data = read(picture), np.full((24, 128), 7, np.uint8)
    data[:, :120] = pixels[:, :, ::-1].reshape(24, 120)
    np.save(tmp_path / "frame.npy", data)
    data.tofile(tmp_path / "frame.raw")
    with Session(padded) as session:
        found = session.run_frame(data)
        assert isinstance(found, Results)
        wanted = [each.as_dict() for each in found]
        assert wanted != [each.as_dict() for each in session.run_picture(pixels)]
    for name in ("dog.png", "frame.npy", "frame.raw"):
        assert run(padded, "--frame", tmp_path / name, "--json", "--draw", tmp_path / f"{name}.drawn.png") == 0
        assert json.loads(capsys.readouterr().out) == wanted
    drawn = [read(tmp_path / f"{name}.drawn.png") for name in ("dog.png", "frame.npy", "frame.raw")]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] == drawn[2]).all()
    assert (drawn[0] != pixels).any()


def test_bytes_that_several_frames_fit_have_a_remedy_that_helps(tmp_path: Path, capsys: Capture) -> None:
    """An encoding tells frames apart only if they have different ones."""
    model = make_detector([[1, 6, 50]], (32, 32)).SerializeToString()
    np.zeros(24 * 40 * 3, np.uint8).tofile(tmp_path / "frame.raw")
    for second, remedy in (
        (Frame(40, 24, "bgr8"), "give the bytes as an .npy, whose shape tells which"),
        (Frame(24, 40, "rgb8"), "name one by --encoding"),
    ):
        frames = (Frame(24, 40, "bgr8"), second)
        options = BuildOptions("net", preprocess=Preprocess(), frames=frames, postprocess=(Boxes("yolov8"),))
        package = tmp_path / f"{second.encoding}.tar"
        write_package(package, build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
        assert run(package, "--frame", tmp_path / "frame.raw") == 1
        assert "has 2880 bytes; net takes bgr8 [24, 40, 3] of 2880 bytes" in (told := capsys.readouterr().err)
        assert f"hint: {remedy}" in told


def test_bytes_of_planes_are_drawn_in_colour(padded: Path, tmp_path: Path, capsys: Capture) -> None:
    data = np.full((36, 64), 128, np.uint8)
    data[24:, 1:40:2] = 240  # red
    data.tofile(tmp_path / "frame.nv12")
    words = ("--frame", tmp_path / "frame.nv12", "--draw", tmp_path / "out.png", "--score", "1e9")
    assert run(padded, *words) == 0
    assert "nothing found" in capsys.readouterr().out
    assert (read(tmp_path / "out.png") == (255, 39, 130)).all()


def test_a_package_without_a_result(package: Path, picture: Path, tmp_path: Path, capsys: Capture) -> None:
    bare = change_package(package, tmp_path / "bare.tar", postprocess=())
    assert run(bare, "--frame", picture) == 1
    assert "does not say what its outputs mean" in capsys.readouterr().err


def test_several_results_are_shown(tmp_path: Path, picture: Path, capsys: Capture) -> None:
    model = add_factor(make_detector([[1, 6, 60], [1, 4, 8, 8]], (32, 32))).SerializeToString()
    asked = (Boxes("yolov8", overlap=0.1), Segmentation(("out1",), labels=("ground",)))
    options = BuildOptions("net", preprocess=Preprocess(input="picture"), postprocess=asked)
    write_package(tmp_path / "s.tar", build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    capsys.readouterr()
    words: list[str | Path] = [tmp_path / "s.tar", "--frame", picture]
    assert run(*words) == 1
    assert "net needs the inputs factor beside the picture" in capsys.readouterr().err
    np.save(tmp_path / "one.npy", np.ones(1, np.float32))
    words += ["--input", f"factor={tmp_path / 'one.npy'}"]
    assert run(*words, "--draw", tmp_path / "out.png") == 0
    shown = capsys.readouterr().out
    assert "net for here: boxes" in shown
    assert "net for here: segmentation" in shown
    assert "ground" in shown
    assert (read(tmp_path / "out.png") != read(picture)).any()
    assert run(*words, "--json") == 0
    assert set(json.loads(capsys.readouterr().out)) == {"boxes", "segmentation"}


def test_classes_are_drawn(tmp_path: Path, picture: Path, capsys: Capture) -> None:
    model = make_detector([[1, 4]], (32, 32)).SerializeToString()
    options = BuildOptions("net", preprocess=Preprocess(), postprocess=(Classes(most=2),), labels=tuple("abcd"))
    write_package(tmp_path / "c.tar", build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    capsys.readouterr()
    assert run(tmp_path / "c.tar", "--frame", picture, "--draw", tmp_path / "out.png") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["score", "class"]
    assert (read(tmp_path / "out.png") != read(picture)).any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shapes", "asked", "headings"),
    [
        ([[1, 6, 40], [1, 1, 8, 8]], Masks("yolov8"), ["score", "class", "x", "y", "width", "height", "pixels"]),
        ([[1, 11, 40]], Keypoints("yolov8", points=2), ["score", "class", "x", "y", "width", "height"]),
        ([[1, 4, 8, 8]], Segmentation(), ["share", "class", "pixels"]),
        ([[1, 12, 5]], TextResult(), ["score", "text"]),
        ([[1, 4, 8, 8]], Heatmaps(), ["score", "class", "x", "y"]),
        ([[1, 300]], VectorResult(), ["length", "values"]),
        ([[1, 4, 8, 8]], Segmentation(resolution="input"), ["share", "class", "pixels"]),
        ([[1, 3], [2, 5]], Raw(("out1",)), ["output", "dtype", "shape"]),
    ],
)
def test_results_of_every_kind(  # noqa: PLR0917 - three come from pytest
    tmp_path: Path, picture: Path, capsys: Capture, shapes: list[list[int]], asked: Postprocess, headings: list[str]
) -> None:
    model = make_detector(shapes, (32, 32), spread=8).SerializeToString()
    options = BuildOptions("net", preprocess=Preprocess(), postprocess=(asked,), labels=tuple("abcd"))
    write_package(tmp_path / "c.tar", build_package(model, PackageTarget("here", "llvm", ANY_X86), options=options))
    capsys.readouterr()
    drawn = tmp_path / "out.png"
    lacks = "cannot be drawn" if isinstance(asked, VectorResult | Raw) else ""
    lacks = "has the pixels of the network's input, and cannot be drawn" if is_in_input(asked) else lacks
    can_draw = not lacks
    assert run(tmp_path / "c.tar", "--frame", picture, *(("--draw", drawn) if can_draw else ())) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == headings
    assert not can_draw or (read(drawn) != read(picture)).any()
    assert run(tmp_path / "c.tar", "--frame", picture, "--json") == 0
    assert json.loads(capsys.readouterr().out)
    if not can_draw:
        assert run(tmp_path / "c.tar", "--frame", picture, "--draw", drawn) == 1
        assert lacks in capsys.readouterr().err


def make_video(path: Path, count: int) -> None:
    cv2 = pytest.importorskip("cv2")
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, (40, 24))
    for seed in range(count):
        video.write(np.random.default_rng(seed).integers(0, 256, (24, 40, 3), np.uint8))
    video.release()


def test_a_video(package: Path, tmp_path: Path, capsys: Capture) -> None:
    make_video(tmp_path / "in.avi", 7)
    drawn = tmp_path / "out.avi"
    assert run(package, "--camera", tmp_path / "in.avi", "--draw", drawn) == 0
    assert "7 frames, " in capsys.readouterr().out
    assert drawn.stat().st_size > 0
    assert run(package, "--camera", drawn, "--json", "--frames", "3") == 0
    done = capsys.readouterr()
    assert [type(json.loads(line)) for line in done.out.splitlines()] == [list] * 3
    assert "3 frames, " in done.err


def test_a_video_whose_frames_the_package_does_not_take(package: Path, tmp_path: Path, capsys: Capture) -> None:
    make_video(tmp_path / "in.avi", 3)
    planes = change_package(package, tmp_path / "planes.tar", frames=(Frame(24, 40, "nv12"),))
    assert run(planes, "--camera", tmp_path / "in.avi", "--json") == 0
    remark = "net takes no frame of 24 by 40 pixels in rgb8, bgr8, rgba8, bgra8, so each is prepared as a picture"
    assert capsys.readouterr().err.count(remark) == 1
    assert run(package, "--camera", tmp_path / "in.avi", "--json") == 0
    assert "prepared as a picture" not in capsys.readouterr().err


def test_what_cannot_be_a_camera(package: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_video(tmp_path / "in.avi", 2)
    for words, message in (
        (("--camera", tmp_path / "none.mp4"), "none.mp4 cannot be opened as a camera or a video"),
        (("--camera", tmp_path / "in.avi", "--draw", tmp_path / "x.png"), "x.png is not a video"),
        (("--camera", tmp_path / "in.avi", "--draw", tmp_path / "none" / "x.avi"), "x.avi cannot be written"),
        (("--camera", "63"), "63 cannot be opened as a camera or a video"),
        (("--camera", tmp_path / "in.avi", "--device", "qemu:aarch64"), "--camera runs only on this machine"),
        (("--camera", tmp_path / "in.avi", "--encoding", "rgb8"), "--encoding cannot be combined with --camera"),
        (("--frame", tmp_path / "in.avi", "--camera", "0"), "--camera cannot be combined with --frame"),
        (("--frames", "3"), "belong to --frame and --camera"),
    ):
        assert run(package, *words) == 1, message
        assert message in capfd.readouterr().err
