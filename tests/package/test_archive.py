from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, extract_package, read_metadata, read_package, write_package
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget

INFO = PackageInfo("net", PackageTarget("pi4", "llvm"), (), (), "lifted", PackageCoverage(1, 1), "NHWC")
LIBRARY, PARAMS = b"library" * 1000, b"params"
Members = dict[str, bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    archive = tmp_path / "net-pi4.tar"
    write_package(archive, Package(INFO, LIBRARY, PARAMS))
    return archive


def members(path: Path) -> Members:
    with tarfile.open(path) as archive:
        return {m.name: stream.read() for m in archive if (stream := archive.extractfile(m)) is not None}


def rewrite(path: Path, change: Callable[[Members], None]) -> None:
    contents = members(path)
    change(contents)
    with tarfile.open(path, "w") as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def test_what_was_written_is_read(path: Path) -> None:
    package = read_package(path)
    assert (package.library, package.params) == (LIBRARY, PARAMS)
    assert package.info.model == "net"
    assert [(entry.name, entry.size) for entry in package.info.files] == [("mod.params", 6), ("mod.so", 7000)]
    assert read_metadata(path) == package.info


def test_the_bytes_depend_on_the_contents_alone(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "elsewhere" / "other-name.tar"
    time.sleep(1.1)  # tar keeps whole seconds
    write_package(again, Package(INFO, LIBRARY, PARAMS))
    assert again.read_bytes() == path.read_bytes()


def test_members_are_plain_sorted_and_anonymous(path: Path) -> None:
    with tarfile.open(path) as archive:
        found = archive.getmembers()
    assert [member.name for member in found] == ["mod.json", "mod.params", "mod.so"]
    assert {(m.mode, m.uid, m.gid, m.mtime, m.uname, m.gname) for m in found} == {(0o644, 0, 0, 0, "", "")}
    assert path.read_bytes()[257:263] == b"ustar\0"


def test_extracting_writes_the_three_files(path: Path, tmp_path: Path) -> None:
    info = extract_package(path, tmp_path / "out")
    assert info.model == "net"
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == members(path)


def flip_library(contents: Members) -> None:
    contents["mod.so"] = b"L" + contents["mod.so"][1:]


def drop_params(contents: Members) -> None:
    del contents["mod.params"]


def add_outside(contents: Members) -> None:
    contents["../outside"] = b"x"


def break_json(contents: Members) -> None:
    contents["mod.json"] = b"{"


def old_format(contents: Members) -> None:
    contents["mod.json"] = contents["mod.json"].replace(b'"format": 1', b'"format": 0')


def hide_file(contents: Members) -> None:
    contents["mod.json"] = contents["mod.json"].replace(b'"mod.params"', b'"mod.other"')


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (flip_library, "mod.so is not the file that mod.json describes"),
        (drop_params, "mod.params missing"),
        (add_outside, "unexpected member '../outside'"),
        (break_json, "mod.json is not JSON: "),
        (old_format, "mod.json has the format 0; this tvmbuild reads 1"),
        (hide_file, "mod.json lists other files than the archive holds"),
    ],
)
def test_damage_is_named(path: Path, tmp_path: Path, change: Callable[[Members], None], reason: str) -> None:
    rewrite(path, change)
    with pytest.raises(TvmbuildError) as caught:
        extract_package(path, tmp_path / "out")
    assert caught.value.message.startswith(f"net-pi4.tar is damaged: {reason}")
    assert caught.value.hint == "if it is a package, copy it or build it again"
    assert not (tmp_path / "out").exists()


def test_a_link_is_refused(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("mod.so")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(TvmbuildError, match=r"unexpected member 'mod\.so'"):
        read_package(path)


@pytest.mark.parametrize("size", [0, 100, 700, 5000])
def test_a_truncated_archive_is_damaged(path: Path, size: int) -> None:
    os.truncate(path, size)
    with pytest.raises(TvmbuildError, match=r"net-pi4\.tar is damaged: "):
        read_package(path)


def test_a_package_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError, match=r"net\.tar: no such package"):
        read_package(tmp_path / "net.tar")


def test_a_folder_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError, match=rf"{tmp_path.name} cannot be read: Is a directory"):
        read_package(tmp_path)
