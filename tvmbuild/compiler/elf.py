"""The little of ELF that linking checks: machine, undefined symbols, glibc versions. Source: elf(5)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.errors import TvmbuildError

MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SYMTAB, _DYNSYM, _VERNEED, _STRONG_UNDEFINED = 2, 11, 0x6FFFFFFE, 1


@dataclass(frozen=True)
class _Section:
    kind: int
    link: int
    data: bytes


@dataclass(frozen=True)
class ElfFile:
    """What one object or shared library says about itself."""

    machine: str
    undefined: frozenset[str]
    """Symbols that something else must define; weak ones left out."""
    versions: frozenset[str]
    """Symbol versions needed of other libraries: ``GLIBC_2.17`` …"""

    @property
    def glibc(self) -> tuple[int, ...]:
        """The newest glibc that is needed, (0,) when none is."""
        found = [version.removeprefix("GLIBC_") for version in self.versions if version.startswith("GLIBC_2")]
        return max((version_tuple(version) for version in found), default=(0,))


def version_tuple(version: str) -> tuple[int, ...]:
    """Return ``2.28`` as (2, 28)."""
    return tuple(int(part) for part in version.split("."))


def read_elf(path: Path) -> ElfFile:
    """Read a 64-bit little-endian ELF file; anything else is a TvmbuildError."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise TvmbuildError(f"{path.name} is no 64-bit little-endian ELF file", "only such targets are linked")
    number = struct.unpack_from("<H", data, 18)[0]
    sections = _sections(data)
    return ElfFile(MACHINES.get(number, f"machine {number}"), _undefined(sections), _versions(sections))


def read_symbol(path: Path, name: str) -> bytes:
    """Return the bytes of a data symbol that the object file defines; KeyError when it does not."""
    sections = _sections(path.read_bytes())
    for section in sections:
        if section.kind != _SYMTAB:
            continue
        for string, _, _, index, value, size in struct.iter_unpack("<IBBHQQ", section.data):
            if 0 < index < len(sections) and _string(sections[section.link].data, string) == name:
                data: bytes = sections[index].data
                return data[value : value + size]
    raise KeyError(name)


def _sections(data: bytes) -> list[_Section]:
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    if count == 0 and offset:  # more than 65279 sections: the count is in the first one
        count = struct.unpack_from("<Q", data, offset + 32)[0]
    sections = []
    for index in range(count):
        _, kind, _, _, start, length, link = struct.unpack_from("<IIQQQQI", data, offset + index * size)
        sections.append(_Section(kind, link, data[start : start + length] if kind != 8 else b""))
    return sections


def _undefined(sections: list[_Section]) -> frozenset[str]:
    names = set()
    for section in sections:
        if section.kind not in (_SYMTAB, _DYNSYM):
            continue
        strings = sections[section.link].data
        for name, info, _, index, _, _ in struct.iter_unpack("<IBBHQQ", section.data):
            if name and index == 0 and info >> 4 == _STRONG_UNDEFINED:
                names.add(_string(strings, name))
    return frozenset(names)


def _versions(sections: list[_Section]) -> frozenset[str]:
    names = set()
    for section in sections:
        if section.kind != _VERNEED:
            continue
        strings, offset, more = sections[section.link].data, 0, True
        while more:
            _, count, _, first, following = struct.unpack_from("<HHIII", section.data, offset)
            entry = offset + first
            for _ in range(count):
                _, _, _, name, next_entry = struct.unpack_from("<IHHII", section.data, entry)
                names.add(_string(strings, name))
                entry += next_entry
            offset, more = offset + following, following != 0
    return frozenset(names)


def _string(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()
