from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.unpack import extract_file

CONTENT = bytes(range(256)) * 64


def make_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("package/model.onnx", CONTENT)


def make_sdist(path: Path) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w:xz") as sdist:
        info = tarfile.TarInfo("package/model.onnx")
        info.size = len(CONTENT)
        sdist.addfile(info, io.BytesIO(CONTENT))


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz", "a.tar.xz"])
def test_a_file_is_taken_out(tmp_path: Path, name: str) -> None:
    (make_wheel if name.endswith(".whl") else make_sdist)(tmp_path / name)
    assert extract_file(tmp_path / name, "package/model.onnx", tmp_path / "out").read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz", "a.tar.xz"])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
def test_a_cut_archive_is_named(tmp_path: Path, name: str, part: float) -> None:
    archive = tmp_path / name
    (make_wheel if name.endswith(".whl") else make_sdist)(archive)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(TvmbuildError, match=name):
        extract_file(archive, "package/model.onnx", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz", "a.tar.xz"])
def test_damage_is_told_or_left_to_the_digest_but_never_a_traceback(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    (make_wheel if name.endswith(".whl") else make_sdist)(archive)
    data = archive.read_bytes()
    told = 0
    for at in range(0, len(data) - 8, 7):
        archive.write_bytes(data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + 8]) + data[at + 8 :])
        try:
            extract_file(archive, "package/model.onnx", tmp_path / "out")
        except TvmbuildError:
            told += 1
    assert told
