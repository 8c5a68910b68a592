"""Malicious archives are refused before any part of them is loaded."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.package import archive
from tvmbuild.package.archive import Package, read_package, write_package
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget

INFO = PackageInfo("net", PackageTarget("pi4", "llvm"), (), (), "lifted", PackageCoverage(1, 1), "NHWC")
BLOCK = 512


@pytest.fixture
def path(tmp_path: Path) -> Path:
    package = tmp_path / "net.tar"
    write_package(package, Package(INFO, b"library" * 1000, b"params"))
    return package


def change_header(path: Path, member: int, change: Callable[[bytearray], None]) -> None:
    """Change a member's header and renew its checksum."""
    data = bytearray(path.read_bytes())
    with tarfile.open(path) as opened:
        start = opened.getmembers()[member].offset
    header = data[start : start + BLOCK]
    change(header)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data[start : start + BLOCK] = header
    path.write_bytes(data)


def name_it(name: bytes) -> Callable[[bytearray], None]:
    def change(header: bytearray) -> None:
        header[:100] = name.ljust(100, b"\0")

    return change


def type_it(kind: bytes) -> Callable[[bytearray], None]:
    def change(header: bytearray) -> None:
        header[156:157] = kind

    return change


def size_it(size: bytes) -> Callable[[bytearray], None]:
    def change(header: bytearray) -> None:
        header[124:136] = size

    return change


def prefix_it(header: bytearray) -> None:
    header[345:349] = b"/etc"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (name_it(b"/etc/mod.so"), "unexpected member '/etc/mod.so'"),
        (name_it(b"../mod.so"), "unexpected member '../mod.so'"),
        (name_it(b"a/../mod.so"), "unexpected member 'a/../mod.so'"),
        (name_it(b"mod.json"), "unexpected member 'mod.json'"),  # twice
        (name_it(b"mod.so\xff"), "unexpected member 'mod.so\ufffd'"),
        (prefix_it, "unexpected member '/etc/mod.so'"),
        (type_it(b"1"), "unexpected member 'mod.so'"),  # hard link
        (type_it(b"2"), "unexpected member 'mod.so'"),  # symbolic link
        (type_it(b"3"), "unexpected member 'mod.so'"),  # device
        (type_it(b"5"), "unexpected member 'mod.so'"),  # folder
        (type_it(b"S"), "unexpected member 'mod.so'"),  # GNU's sparse file: a terabyte in one block
        (type_it(b"x"), "unexpected member 'mod.so'"),  # extended header: may rename or resize the next member
        (type_it(b"L"), "unexpected member 'mod.so'"),  # GNU's long name
        (size_it(b"77777777777\0"), "mod.so is cut short"),
        (size_it(b"\xff" * 12), "no readable archive: a header is damaged"),  # negative, in base 256
        (size_it(b"\x80" + b"\0" * 10 + b"\1"), "no readable archive: a header is damaged"),
        (size_it(b"-0000000512\0"), "no readable archive: a header is damaged"),
        (size_it(b"\0" * 12), "no readable archive: a header is damaged"),
    ],
)
def test_a_hostile_header_is_refused(path: Path, change: Callable[[bytearray], None], reason: str) -> None:
    change_header(path, 2, change)
    with pytest.raises(TvmbuildError) as caught:
        read_package(path)
    assert caught.value.message == f"net.tar is damaged: {reason}"


def test_a_header_that_does_not_add_up_is_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[101] ^= 1
    path.write_bytes(data)
    with pytest.raises(TvmbuildError, match="no readable archive: a header is damaged"):
        read_package(path)


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_package_that_tar_made_of_its_files_is_read(path: Path, kind: int) -> None:
    with tarfile.open(path) as opened:
        members = [(member, opened.extractfile(member)) for member in opened.getmembers()]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=kind) as made:
            for member, stream in reversed(members):
                member.uname, member.mtime = "somebody", 1_700_000_000
                made.addfile(member, stream)
    want = read_package(path)
    path.write_bytes(buffer.getvalue())
    assert read_package(path) == want


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * 200_000, "mod.json is not JSON: "),
        (b"1" * 10_000, "mod.json is not JSON: "),
        (b"\xff\xfe", "mod.json is not JSON: "),
        (b"[]", "mod.json has the format 'list'"),
        (b'{"format": 1}', "mod.json is damaged: model is missing"),
    ],
)
def test_a_hostile_description_is_refused(path: Path, text: bytes, reason: str) -> None:
    with tarfile.open(path) as opened:
        contents = {m.name: stream.read() for m in opened if (stream := opened.extractfile(m)) is not None}
    with tarfile.open(path, "w") as made:
        for name, data in (contents | {"mod.json": text}).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
        made.close()
    with pytest.raises(TvmbuildError) as caught:
        read_package(path)
    assert caught.value.message.startswith(f"net.tar is damaged: {reason}")


def test_sizes_have_limits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_METADATA_BYTES", 100)
    with pytest.raises(TvmbuildError, match=r"net\.tar is damaged: mod\.json is larger than "):
        read_package(path)
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    with pytest.raises(TvmbuildError, match=r"net\.tar is not a package: it is larger than "):
        read_package(path)
