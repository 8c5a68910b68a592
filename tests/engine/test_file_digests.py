"""A replaced file is noticed, whatever it keeps of the old one; an untouched file is not read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base import files
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.engine import file_digests
from tvmbuild.engine.file_digests import FileDigests

STAMP = 1_000_000_000


@pytest.fixture
def step(tmp_path: Path) -> Step[SimplifyStep]:
    return Step(
        "simplify", "net", SimplifyStep("net", Source("path", "net.onnx"), (), SimplifyOptions()), root=tmp_path
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were hashed; all of them are old enough to be told apart by their times."""
    found: list[Path] = []

    def note(path: Path) -> str:
        found.append(path)
        return files.sha256_file(path)

    monkeypatch.setattr(files, "_RACY_NS", 0)
    monkeypatch.setattr(file_digests, "_hashed", {})
    monkeypatch.setattr(file_digests, "sha256_file", note)
    return found


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    os.utime(path, (STAMP, STAMP))
    return path


def _move(path: Path, new: Path) -> None:
    new.replace(path)


def _copy(path: Path, new: Path) -> None:
    shutil.copy2(new, path)


def _run_cp(path: Path, new: Path) -> None:
    subprocess.run(["cp", "-p", new, path], check=True)


def _run_rsync(path: Path, new: Path) -> None:
    if shutil.which("rsync") is None:
        pytest.skip("no rsync")
    subprocess.run(["rsync", "-t", "--checksum", new, path], check=True)


def _unpack(path: Path, new: Path) -> None:
    with tarfile.open(path.with_suffix(".tar"), "w") as archive:
        archive.add(new, path.name)
    with tarfile.open(path.with_suffix(".tar")) as archive:
        archive.extractall(path.parent, filter="data")


def _edit(path: Path, new: Path) -> None:
    with path.open("r+b") as stream:
        stream.write(new.read_bytes())
    os.utime(path, (STAMP, STAMP))


def _link(path: Path, new: Path) -> None:
    path.unlink()
    path.symlink_to(new)


@pytest.mark.parametrize("replace", [_move, _copy, _run_cp, _run_rsync, _unpack, _edit, _link])
def test_a_file_replaced_with_its_size_and_time_is_another(
    step: Step[SimplifyStep], tmp_path: Path, replace: Callable[[Path, Path], None]
) -> None:
    path = _write(tmp_path / "net.onnx", "old")
    digests = FileDigests(step)
    known = digests.digest(path)
    digests.save()
    replace(path, _write(tmp_path / "other", "new"))
    assert (path.stat().st_size, path.stat().st_mtime) == (3, STAMP)
    assert not FileDigests(step).is_same(path, known)


def test_a_file_is_the_same_by_content(step: Step[SimplifyStep], tmp_path: Path) -> None:
    path = _write(tmp_path / "file", "abc")
    digests = FileDigests(step)
    known = digests.digest(path)
    os.utime(path, (1, 1))
    assert digests.is_same(path, known)
    path.write_text("abd")
    assert not digests.is_same(path, known)
    path.write_text("abcd")
    assert not digests.is_same(path, known)
    path.unlink()
    assert not digests.is_same(path, known)


def test_what_nothing_has_touched_is_not_read_again(
    step: Step[SimplifyStep], tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "net.onnx", "net")
    first = FileDigests(step)
    known = first.digest(path)
    first.save()
    os.utime(path, (1, 1))
    for _ in range(3):
        monkeypatch.setattr(file_digests, "_hashed", {})  # another process
        later = FileDigests(step)
        assert later.is_same(path, known)
        later.save()
    assert read == [path] * 2


def test_the_digest_of_an_older_version_is_checked_once(
    step: Step[SimplifyStep], tmp_path: Path, read: list[Path]
) -> None:
    path = _write(tmp_path / "net.onnx", "net")
    known = (3, STAMP * 10**9, files.sha256_file(path))
    wrong = (3, STAMP * 10**9, files.sha256_file(_write(tmp_path / "other", "old")))
    digests = FileDigests(step)
    assert digests.is_same(path, known)
    assert not digests.is_same(path, wrong)
    assert read == [path]


def test_a_file_that_changed_just_now_is_read_every_time(step: Step[SimplifyStep], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_text("net")
    digests = FileDigests(step)
    digests.digest(path)
    digests.save()
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"net.onnx": 3}', '{"net.onnx": []}', '{"net.onnx": ["x"]}'])
def test_a_damaged_file_of_digests_is_as_none(
    step: Step[SimplifyStep], tmp_path: Path, read: list[Path], text: str
) -> None:
    path = _write(tmp_path / "net.onnx", "net")
    kept = tmp_path / "build/.digests/simplify.net.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(text)
    digests = FileDigests(step)
    assert digests.digest(path)[2] == files.sha256_file(path)
    digests.save()
    assert json.loads(kept.read_text())["net.onnx"][-1] == files.sha256_file(path)
    assert read == [path]


def test_a_folder_that_cannot_be_written_is_no_error(
    step: Step[SimplifyStep], tmp_path: Path, read: list[Path]
) -> None:
    (tmp_path / "build").write_text("")
    digests = FileDigests(step)
    digests.digest(_write(tmp_path / "net.onnx", "net"))
    digests.save()
    assert len(read) == 1
