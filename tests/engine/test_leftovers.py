"""Folders and files of a killed doit: old ones are removed; young, used or another user's ones stay."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from doit_project import write_project

from tvmbuild.base.layout import downloads_dir
from tvmbuild.engine.leftovers import OLD_S, remove_old_leftovers, temporary_folder

TraceFunction = Callable[[FrameType, str, object], "TraceFunction"]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; the cache is beside it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def make_old(path: Path, age: float = OLD_S + 60) -> Path:
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def make_step_folder(folder: Path, name: str, age: float = OLD_S + 60) -> Path:
    path = folder / f"tvmbuild-step-{name}"
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "file").write_text("x")
    return make_old(path, age)


def test_old_step_folders_are_removed_and_no_others(temporary: Path) -> None:
    old = make_step_folder(temporary, "old")
    young = make_step_folder(temporary, "young", OLD_S - 60)
    session = temporary / "tvmbuild-session-a"
    session.mkdir()
    make_old(session)
    file = temporary / "tvmbuild-step-file"
    file.write_text("no folder")
    make_old(file)
    remove_old_leftovers()
    assert not old.exists()
    assert sorted(temporary.iterdir()) == sorted([young, session, file])


def test_a_folder_in_use_stays_however_old(temporary: Path) -> None:
    with temporary_folder() as name:
        folder = make_old(Path(name))
        assert folder.parent == temporary
        remove_old_leftovers()
        assert folder.is_dir()
    assert not folder.exists()


def _interrupt_at(number: int) -> bool:
    """Make and leave a temporary folder, with Ctrl-C at the numbered line of its making; False if it has fewer."""
    left = number

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction:  # noqa: ARG001 - sys.settrace's
        nonlocal left
        if event == "line" and Path(frame.f_code.co_filename).name != "contextlib.py":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with temporary_folder():
            sys.settrace(before)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_while_the_folder_is_made_leaves_none(temporary: Path) -> None:
    number = 1
    while _interrupt_at(number):
        assert list(temporary.iterdir()) == [], number
        number += 1
    assert number > 10


def test_a_link_and_what_it_names_stay(temporary: Path, tmp_path: Path) -> None:
    elsewhere = make_step_folder(tmp_path, "elsewhere")
    link = temporary / "tvmbuild-step-link"
    link.symlink_to(elsewhere)
    past = time.time() - OLD_S - 60
    os.utime(link, (past, past), follow_symlinks=False)
    remove_old_leftovers()
    assert link.is_symlink()
    assert (elsewhere / "inner" / "file").is_file()


@pytest.mark.root
def test_what_is_anothers_stays(temporary: Path) -> None:
    folder = make_step_folder(temporary, "theirs")
    os.chown(folder, 12345, -1)
    remove_old_leftovers()
    assert folder.is_dir()


def test_old_half_downloads_are_removed_and_whole_ones_stay() -> None:
    downloads = downloads_dir()
    downloads.mkdir(parents=True)
    names = ("ab12", ".ab12.x.tmp", ".cd34.y.tmp")
    whole, old, young = (downloads / name for name in names)
    for path in (whole, old, young):
        path.write_bytes(b"x")
    make_old(whole)
    make_old(old)
    remove_old_leftovers()
    assert sorted(downloads.iterdir()) == sorted([whole, young])


def test_a_run_removes_them_and_a_list_does_not(tmp_path: Path, temporary: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(b"")
    project = write_project(tmp_path, model)
    old = make_step_folder(temporary, "old")
    assert project.doit("list").code == 0
    assert old.exists()
    project.doit("simplify:digits")
    assert not old.exists()
