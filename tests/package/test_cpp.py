"""The C++ programs print the same as Python, and run without Python."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from cpp_programs import build_by_cmake, expect_pythons_ranking, install_programs, read_range, read_ranking, run_program
from PIL import Image
from small_package import build_package, change_package

from tvmbuild.base.cpu_features import X86_FEATURES
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.runtime.session import Session

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain]

Resize = Literal["stretch", "crop", "letterbox"]
RULES = Preprocess(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


@pytest.fixture(scope="module")
def installed() -> Path:
    return install_programs()


@pytest.fixture(scope="module")
def pictures(project_root: Path) -> Path:
    return project_root / "examples" / "classify"


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    folder = tmp_path_factory.mktemp("mobilenet")
    package = build_package(project_root / "models" / "mobilenet_v2.onnx", folder)
    labels = tuple((project_root / "models" / "imagenet1000.txt").read_text().splitlines())
    return change_package(package, folder / "m.tar", preprocess=RULES, labels=labels)


@pytest.fixture(scope="module")
def digits_package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    package = build_package(digits, folder)
    return change_package(package, folder / "m.tar", preprocess=Preprocess(color="gray"))


@pytest.mark.parametrize(
    ("name", "resize"), list(itertools.product(["chelsea.png", "coffee.png"], ["stretch", "crop", "letterbox"]))
)
def test_top_classes_are_pythons(
    installed: Path, mobilenet: Path, pictures: Path, tmp_path: Path, *, name: str, resize: Resize
) -> None:
    color: Literal["rgb", "bgr"] = "bgr" if name == "coffee.png" else "rgb"
    package = change_package(mobilenet, tmp_path / "m.tar", preprocess=replace(RULES, resize=resize, color=color))
    done = run_program(installed / "bin" / "run_model", package, pictures / name)
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, package, pictures / name)
    assert f"resize {resize}" in done.stdout
    assert "mean: 0.485, 0.456, 0.406" in done.stdout
    assert "input: input float32 1x3x224x224 NCHW" in done.stdout
    assert "output: logits float32 1x1000" in done.stdout


def test_a_cat_is_a_cat(installed: Path, mobilenet: Path, pictures: Path) -> None:
    done = run_program(installed / "bin" / "run_model", mobilenet, pictures / "chelsea.png", "--top", "1")
    (best,) = read_ranking(done.stdout)
    assert best.label == "Egyptian cat"


def test_labels_and_normalization_can_be_given(
    installed: Path, mobilenet: Path, pictures: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("".join(f"number {index}\n" for index in range(1000)))
    plain = change_package(mobilenet, tmp_path / "m.tar", preprocess=Preprocess())
    picture = pictures / "chelsea.png"
    program = installed / "bin" / "run_model"
    want = read_ranking(run_program(program, mobilenet, picture).stdout)
    for normalize in ("imagenet", "0.485,0.456,0.406:0.229,0.224,0.225"):
        done = run_program(program, plain, picture, tmp_path / "labels.txt", "--normalize", normalize)
        got = read_ranking(done.stdout)
        assert [each.probability for each in got] == [each.probability for each in want]
        assert [each.label for each in got] == [f"number {each.index}" for each in want]
    assert read_range(run_program(program, mobilenet, picture, "--normalize", "none").stdout)[0] >= 0


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "LA", "1", "I;16", "jpeg", "ppm", "pgm"])
def test_every_kind_of_picture_is_read_as_pillow_does(
    installed: Path, digits_package: Path, tmp_path: Path, mode: str
) -> None:
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
    done = run_program(installed / "bin" / "run_model", digits_package, path)
    if "built without lib" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, digits_package, path)


def save_drawing(path: Path, mode: str) -> None:
    """Save a drawing of few colours, so that all formats hold it without a loss."""
    drawn = np.random.default_rng(1).integers(0, 256, (6, 5, 3), np.uint8).repeat(7, axis=0).repeat(9, axis=1)
    image = Image.fromarray(drawn).convert("P", palette=Image.Palette.ADAPTIVE).convert("RGB")
    drawn = np.asarray(image)
    if path.suffix == ".psd":
        head = struct.pack(">4sH6xHIIHH", b"8BPS", 1, 3, *drawn.shape[:2], 8, 3)
        path.write_bytes(head + bytes(14) + drawn.transpose(2, 0, 1).tobytes())
    elif path.suffix == ".pic":
        head = b"\x53\x80\xf6\x34" + bytes(84) + struct.pack(">4sHH8x", b"PICT", drawn.shape[1], drawn.shape[0])
        path.write_bytes(head + b"\0\x08\0\xe0" + drawn.tobytes())
    elif path.suffix == ".hdr":
        head = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {drawn.shape[0]} +X {drawn.shape[1]}\n".encode()
        path.write_bytes(head + np.dstack([drawn, np.full(drawn.shape[:2], 128, np.uint8)]).tobytes())
    else:
        image.convert(mode).save(path, **({"compression": "tga_rle"} if path.stem == "rle" else {}))


OTHER_FORMATS = [
    ("p.bmp", "RGB"),
    ("p.bmp", "RGBA"),
    ("p.bmp", "P"),
    ("p.bmp", "L"),
    ("p.tga", "RGB"),
    ("rle.tga", "RGB"),
    ("rle.tga", "RGBA"),
    ("p.tga", "P"),
    ("rle.tga", "L"),
    ("p.gif", "P"),
    ("p.gif", "L"),
    ("p.psd", "RGB"),
]


@pytest.mark.parametrize(("name", "mode"), OTHER_FORMATS)
def test_stb_image_reads_other_formats_as_pillow_does(
    installed: Path, digits_package: Path, tmp_path: Path, *, name: str, mode: str
) -> None:
    path = tmp_path / name
    save_drawing(path, mode)
    done = run_program(installed / "bin" / "run_model", digits_package, path)
    if "is neither PNG, JPEG nor PPM" in done.stderr:
        pytest.skip("stb_image.h was not found (libstb-dev)")
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, digits_package, path)


@pytest.mark.parametrize("name", ["p.hdr", "p.pic"])
def test_stb_image_reads_formats_that_pillow_does_not(
    installed: Path, digits_package: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    save_drawing(path, "RGB")
    done = run_program(installed / "bin" / "run_model", digits_package, path)
    if "is neither PNG, JPEG nor PPM" in done.stderr:
        pytest.skip("stb_image.h was not found (libstb-dev)")
    assert done.returncode == 0, done.stderr
    save_drawing(tmp_path / "same.png", "RGB")
    if name == "p.hdr":  # a byte is a share of 256 of light, and pictures have the gamma 2.2
        light = np.asarray(Image.open(tmp_path / "same.png")).astype(np.float64) / 256
        Image.fromarray((light ** (1 / 2.2) * 255 + 0.5).astype(np.uint8)).save(tmp_path / "same.png")
    expect_pythons_ranking(done.stdout, digits_package, tmp_path / "same.png")


@pytest.mark.nightly
def test_stb_image_stands_in_for_the_other_libraries(digits_package: Path, tmp_path: Path, pictures: Path) -> None:
    absent = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("PNG", "JPEG")]
    program = build_by_cmake(tmp_path, *absent) / "bin" / "run_model"
    done = run_program(program, digits_package, pictures / "chelsea.png")
    if "built without libpng" in done.stderr:
        pytest.skip("stb_image.h was not found (libstb-dev)")
    expect_pythons_ranking(done.stdout, digits_package, pictures / "chelsea.png")
    Image.open(pictures / "chelsea.png").convert("RGB").save(tmp_path / "p.jpg")
    done = run_program(program, digits_package, tmp_path / "p.jpg")
    assert done.returncode == 0, done.stderr
    with Session(digits_package) as session:
        tensor = session.preprocess(tmp_path / "p.jpg")
    np.testing.assert_allclose(read_range(done.stdout), (tensor.min(), tensor.max()), atol=3 / 255)


@pytest.mark.parametrize(
    "rules",
    [
        Preprocess(color="gray", resize="letterbox", fill=7),
        Preprocess(color="gray", resize="letterbox", align="top-left", fill=200),
        Preprocess(color="gray", resize="crop", crop_pct=0.7),
    ],
)
def test_pictures_are_placed_as_python_does(
    installed: Path, digits_package: Path, tmp_path: Path, rules: Preprocess
) -> None:
    path = tmp_path / "p.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (37, 50, 3), np.uint8)).save(path)
    package = change_package(digits_package, tmp_path / "m.tar", preprocess=rules)
    done = run_program(installed / "bin" / "run_model", package, path)
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, package, path)


def test_the_latency_of_one_and_of_two_packages(installed: Path, digits_package: Path) -> None:
    program = installed / "bin" / "bench_model"
    done = run_program(program, digits_package, "--repeat", 7, "--number", 2, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert "1 threads" in done.stdout
    (figures,) = re.findall(
        r"median (\S+), mean (\S+), min (\S+), p95 (\S+), max (\S+), std (\S+) \(7 samples of 2\)", done.stdout
    )
    median, mean, least, late, most, _ = map(float, figures)
    assert 0 < least <= median <= late <= most
    assert least <= mean <= most
    done = run_program(program, digits_package, digits_package, "--repeat", 5)
    assert re.search(r"m\.tar takes \d+\.\d{3} times as long as .*m\.tar$", done.stdout.strip())


@pytest.mark.root
def test_the_installed_folder_runs_in_an_empty_root(installed: Path, digits_package: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("bin", "lib"):
        shutil.copytree(installed / name, root / name, ignore=shutil.ignore_patterns("cmake", "pkgconfig"))
    told = subprocess.run(["ldd", installed / "bin" / "run_model"], capture_output=True, text=True, check=True).stdout
    assert "site-packages" not in told
    for path in map(Path, re.findall(r"(/\S+) \(0x", told)):
        if installed not in path.parents and ".." not in path.parts:
            (root / path.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path.relative_to("/"))
    (root / "tmp").mkdir()
    shutil.copy(digits_package, root / "m.tar")
    picture = tmp_path / "p.ppm"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 40, 3), np.uint8)).save(picture)
    shutil.copy(picture, root / "p.ppm")
    there = {path.name for path in root.rglob("*") if path.is_file()} - {"run_model", "bench_model", "m.tar", "p.ppm"}
    own = r"tvm_runtime(_cuda)?|tvm_ffi|tvmbuild(_cuda)?"
    libraries = rf"(ld-linux-\S+|lib({own}|c|m|stdc\+\+|gcc_s|z|png16|jpeg|pthread|dl|rt))\.so[.\d]*"
    assert [name for name in there if not re.fullmatch(libraries, name)] == []
    chroot = [shutil.which("chroot") or "/usr/sbin/chroot", str(root)]
    done = subprocess.run(
        [*chroot, "/bin/run_model", "m.tar", "p.ppm"], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, digits_package, picture)
    assert not list((root / "tmp").iterdir())
    done = subprocess.run(
        [*chroot, "/bin/bench_model", "m.tar", "--repeat", "3"], env={}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "(3 samples of 1)" in done.stdout) == (0, True), done.stderr


def test_what_is_no_file_is_refused_at_once(installed: Path, digits_package: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in ((tmp_path / "pipe", "Operation not supported"), (tmp_path, "Is a directory")):
        done = run_program(installed / "bin" / "bench_model", path)
        assert (done.returncode, done.stderr) == (1, f"error: {path} cannot be read: {reason}\n")
    for path in (tmp_path / "pipe", tmp_path):
        done = run_program(installed / "bin" / "run_model", digits_package, path)
        assert (done.returncode, done.stderr) == (1, f"error: {path} cannot be read\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86")
def test_an_instruction_set_that_is_missing_is_named_as_python_names_it(
    installed: Path, digits_package: Path, tmp_path: Path
) -> None:
    metadata = read_metadata(digits_package)
    cases: list[tuple[str, str | tuple[str, ...]]] = [(f"+{name}", f"+{name}") for name in X86_FEATURES]
    cases += [
        ("list", ("+avx512f", "+tbm")),
        ("text", "+avx512f,+tbm"),
        ("off", "+tbm,-tbm"),
        ("hint", "+slow-3ops-lea"),
    ]
    refused = 0
    stated = [("stated", ("avx512_fp16", "tbm", "amx_fp16")), ("none", ())]
    for name, mattr, flags in [*((*case, None) for case in cases), *((name, (), flags) for name, flags in stated)]:
        attributes = FrozenMap({"mattr": mattr, "mcpu": "x86-64", "num-cores": 2})
        target = replace(metadata.target, attributes=attributes, flags=flags)
        package = change_package(digits_package, tmp_path / "m.tar", target=target)
        done = run_program(installed / "bin" / "bench_model", package, "--repeat", 1)
        told = ""
        try:
            Session(package).close()
        except TvmbuildError as error:
            told = f"error: {error.message}\n"
            refused += 1
        assert (done.returncode, done.stderr) == (1 if told else 0, told), name
    assert refused > 3  # no CPU has AMD's and Intel's sets
