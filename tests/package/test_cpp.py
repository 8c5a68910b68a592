"""The C++ programs say what Python says, and run where no Python is."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from cpp_programs import build_by_cmake, build_by_zig, read_flags, read_range, read_ranking, run_program
from mnist_package import build_package, change_package
from PIL import Image

from tvmbuild.package.ranking import rank_classes
from tvmbuild.package.runtime.session import Session
from tvmbuild.specs import Preprocess

pytestmark = pytest.mark.compiler

Resize = Literal["stretch", "crop", "letterbox"]
RULES = Preprocess(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_by_cmake(tmp_path_factory.mktemp("cpp"))


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    folder = tmp_path_factory.mktemp("mobilenet")
    package = build_package(project_root / "models" / "mobilenet_v2.onnx", folder)
    labels = tuple((project_root / "models" / "imagenet1000.txt").read_text().splitlines())
    return change_package(package, folder / "m.tar", preprocess=RULES, labels=labels)


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory, shared_models: Path) -> Path:
    folder = tmp_path_factory.mktemp("mnist")
    package = build_package(shared_models / "mnist.onnx", folder)
    return change_package(package, folder / "m.tar", preprocess=Preprocess(color="gray"))


def expect_equal(output: str, package: Path, picture: Path) -> None:
    with Session(package) as session:
        (tensor_name,) = (each.name for each in session.inputs)
        tensor = session.preprocess(picture)
        (scores,) = session.run({tensor_name: tensor}).values()
        want = rank_classes(scores, session.metadata.labels, 5)
    got = read_ranking(output)
    assert [each.index for each in got] == [each.index for each in want]
    assert [each.label for each in got] == [each.label or "-" for each in want]
    np.testing.assert_allclose([g.probability for g in got], [w.probability for w in want], atol=1e-4)
    assert read_range(output) == (round(float(tensor.min()), 6), round(float(tensor.max()), 6))


@pytest.mark.parametrize(
    ("name", "resize"), list(itertools.product(["chelsea.png", "coffee.png"], ["stretch", "crop", "letterbox"]))
)
def test_top_classes_are_pythons(
    installed: Path, mobilenet: Path, shared_images: Path, tmp_path: Path, *, name: str, resize: Resize
) -> None:
    color: Literal["rgb", "bgr"] = "bgr" if name == "coffee.png" else "rgb"
    package = change_package(mobilenet, tmp_path / "m.tar", preprocess=replace(RULES, resize=resize, color=color))
    done = run_program(installed / "bin" / "run_model", package, shared_images / name)
    assert done.returncode == 0, done.stderr
    expect_equal(done.stdout, package, shared_images / name)
    assert f"resize {resize}" in done.stdout
    assert "mean: 0.485, 0.456, 0.406" in done.stdout
    assert "input: input float32 1x3x224x224 NCHW" in done.stdout
    assert "output: logits float32 1x1000" in done.stdout


def test_a_cat_is_a_cat(installed: Path, mobilenet: Path, shared_images: Path) -> None:
    done = run_program(installed / "bin" / "run_model", mobilenet, shared_images / "chelsea.png", "--top", "1")
    (best,) = read_ranking(done.stdout)
    assert best.label == "Egyptian cat"


def test_labels_and_normalization_can_be_given(
    installed: Path, mobilenet: Path, shared_images: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("".join(f"number {index}\n" for index in range(1000)))
    plain = change_package(mobilenet, tmp_path / "m.tar", preprocess=Preprocess())
    picture = shared_images / "chelsea.png"
    program = installed / "bin" / "run_model"
    want = read_ranking(run_program(program, mobilenet, picture).stdout)
    for normalize in ("imagenet", "0.485,0.456,0.406:0.229,0.224,0.225"):
        done = run_program(program, plain, picture, tmp_path / "labels.txt", "--normalize", normalize)
        got = read_ranking(done.stdout)
        assert [each.probability for each in got] == [each.probability for each in want]
        assert [each.label for each in got] == [f"number {each.index}" for each in want]
    assert read_range(run_program(program, mobilenet, picture, "--normalize", "none").stdout)[0] >= 0


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "LA", "1", "I;16", "jpeg", "ppm", "pgm"])
def test_every_kind_of_picture_is_read_as_pillow_does(installed: Path, mnist: Path, tmp_path: Path, mode: str) -> None:
    drawn = np.random.default_rng(1).integers(0, 256, (37, 50, 3), np.uint8)
    image = Image.fromarray(drawn)
    path = tmp_path / {"jpeg": "p.jpg", "ppm": "p.ppm", "pgm": "p.pgm"}.get(mode, "p.png")
    if mode == "I;16":
        image = Image.fromarray(drawn[:, :, 0].astype(np.uint16) * 257)
    elif mode == "pgm":
        image = image.convert("L")
    elif mode not in ("jpeg", "ppm"):
        image = image.convert(mode)
    image.save(path)
    done = run_program(installed / "bin" / "run_model", mnist, path)
    if "built without lib" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    expect_equal(done.stdout, mnist, path)


def test_the_latency_of_one_and_of_two_packages(installed: Path, mnist: Path) -> None:
    program = installed / "bin" / "bench_model"
    done = run_program(program, mnist, "--repeat", 7, "--number", 2, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert "1 threads" in done.stdout
    (figures,) = re.findall(
        r"median (\S+), mean (\S+), min (\S+), p95 (\S+), max (\S+), std (\S+) \(7 samples of 2\)", done.stdout
    )
    median, mean, least, late, most, _ = map(float, figures)
    assert 0 < least <= median <= late <= most
    assert least <= mean <= most
    done = run_program(program, mnist, mnist, "--repeat", 5)
    assert re.search(r"m\.tar takes \d+\.\d{3} times as long as .*m\.tar$", done.stdout.strip())


def test_the_installed_folder_runs_in_an_empty_root(installed: Path, mnist: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    root = tmp_path / "root"
    for name in ("bin", "lib"):
        shutil.copytree(installed / name, root / name)
    told = subprocess.run(["ldd", installed / "bin" / "run_model"], capture_output=True, text=True, check=True).stdout
    assert "site-packages" not in told
    for path in map(Path, re.findall(r"(/\S+) \(0x", told)):
        if installed not in path.parents and ".." not in path.parts:
            (root / path.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path.relative_to("/"))
    (root / "tmp").mkdir()
    shutil.copy(mnist, root / "m.tar")
    picture = tmp_path / "p.ppm"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 40, 3), np.uint8)).save(picture)
    shutil.copy(picture, root / "p.ppm")
    done = subprocess.run(
        [shutil.which("chroot") or "/usr/sbin/chroot", root, "/bin/run_model", "m.tar", "p.ppm"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expect_equal(done.stdout, mnist, picture)
    assert not list((root / "tmp").iterdir())


def test_zig_builds_it_from_what_config_says(mnist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = build_by_zig(tmp_path / "run_model", read_flags(capsys), "read_picture.cpp", "run_model.cpp")
    pixels = np.random.default_rng(2).integers(0, 256, (40, 30, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "p.ppm")
    done = run_program(program, mnist, tmp_path / "p.ppm")
    assert done.returncode == 0, done.stderr
    expect_equal(done.stdout, mnist, tmp_path / "p.ppm")
    done = run_program(program, mnist.with_name("absent.tar"), tmp_path / "p.ppm")
    assert (done.returncode, done.stderr) == (1, f"error: {mnist.with_name('absent.tar')} cannot be read\n")
