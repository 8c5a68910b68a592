"""A small ELF reader for linking: machine, calling convention, undefined symbols, glibc versions. Source: elf(5)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.errors import TvmbuildError

_SYMTAB, _NOBITS, _DYNSYM, _VERNEED, _STRONG_UNDEFINED = 2, 8, 11, 0x6FFFFFFE, 1


@dataclass(frozen=True)
class _Layout:
    """The layout of a 32-bit or a 64-bit ELF file: the offsets and structures that this module reads."""

    table: int
    """The position of the section table's offset in the file's header, in bytes."""
    flags: int
    counts: int
    """The position of the size and the number of the section table's entries in the file's header, in bytes."""
    section: struct.Struct
    """The structure of a section table's entry: name, kind, flags, address, offset, size, link."""
    symbol: struct.Struct
    fields: tuple[int, int, int, int, int]
    """The indices of name, info, section, value and size among the numbers of a symbol."""


_LAYOUTS = {
    1: _Layout(32, 36, 46, struct.Struct("<IIIIIII"), struct.Struct("<IIIBBH"), (0, 3, 5, 1, 2)),
    2: _Layout(40, 48, 58, struct.Struct("<IIQQQQI"), struct.Struct("<IBBHQQ"), (0, 1, 3, 4, 5)),
}
"""The layout for each ELF class in the header: 1 for 32 bits, 2 for 64 bits."""
_MACHINES = {(40, 1): "arm", (62, 2): "x86_64", (183, 2): "aarch64", (243, 2): "riscv64"}
"""The machine's name for each machine number and ELF class in the header."""
_RISCV_CALLS = {0: "lp64", 2: "lp64f", 4: "lp64d", 6: "lp64q"}


@dataclass(frozen=True)
class _Section:
    kind: int
    link: int
    data: bytes


@dataclass(frozen=True)
class _Symbol:
    name: str
    binding: int
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class ElfFile:
    """The properties of one object file or shared library that linking checks."""

    machine: str
    undefined: frozenset[str]
    """The strong undefined symbols, which another library must define."""
    versions: frozenset[str]
    """The symbol versions that the file needs from other libraries, for example ``GLIBC_2.17``."""
    calls: str = ""
    """The calling convention of a riscv64 file (``lp64d`` passes doubles in floating-point registers), else empty."""

    @property
    def glibc(self) -> tuple[int, ...]:
        """The newest glibc version that the file needs, or (0,) if the file needs none."""
        found = [version.removeprefix("GLIBC_") for version in self.versions if version.startswith("GLIBC_2")]
        return max((version_tuple(version) for version in found), default=(0,))


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the numbers of a dotted version: (2, 28) for ``2.28``."""
    return tuple(int(part) for part in version.split("."))


def read_elf(path: Path) -> ElfFile:
    """Read a little-endian ELF file of 32 or 64 bits; raise TvmbuildError for any other file."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or len(data) < 52 or data[4] not in _LAYOUTS or data[5] != 1:
        raise TvmbuildError(f"{path.name} is not a little-endian ELF file", "only such targets are linked")
    layout = _LAYOUTS[data[4]]
    number = struct.unpack_from("<H", data, 18)[0]
    machine = _MACHINES.get((number, data[4]), f"machine {number} of {32 * data[4]} bits")
    flags = struct.unpack_from("<I", data, layout.flags)[0]
    calls = _RISCV_CALLS[flags & 6] if machine == "riscv64" else ""
    sections = _sections(data)
    undefined = frozenset(
        symbol.name
        for kind in (_SYMTAB, _DYNSYM)
        for symbol in _symbols(sections, layout, kind)
        if symbol.name and symbol.section == 0 and symbol.binding == _STRONG_UNDEFINED
    )
    return ElfFile(machine, undefined, _versions(sections), calls)


def read_symbol(path: Path, name: str) -> bytes:
    """Return the bytes of a data symbol in an object file; raise KeyError if the file does not define the symbol."""
    content = path.read_bytes()
    sections = _sections(content)
    for symbol in _symbols(sections, _LAYOUTS[content[4]], _SYMTAB):
        if symbol.name == name and 0 < symbol.section < len(sections):
            return sections[symbol.section].data[symbol.value : symbol.value + symbol.size]
    raise KeyError(name)


def _sections(data: bytes) -> list[_Section]:
    layout = _LAYOUTS[data[4]]
    offset = struct.unpack_from("<Q" if data[4] == 2 else "<I", data, layout.table)[0]
    entry, count = struct.unpack_from("<HH", data, layout.counts)
    if count == 0 and offset:  # with more than 65279 sections, the first one's size is the count
        count = layout.section.unpack_from(data, offset)[5]
    sections = []
    for index in range(count):
        _, kind, _, _, start, length, link = layout.section.unpack_from(data, offset + index * entry)
        sections.append(_Section(kind, link, data[start : start + length] if kind != _NOBITS else b""))
    return sections


def _symbols(sections: list[_Section], layout: _Layout, kind: int) -> Iterator[_Symbol]:
    for table in (section for section in sections if section.kind == kind):
        strings = sections[table.link].data
        for entry in layout.symbol.iter_unpack(table.data):
            name, info, section, value, size = (entry[index] for index in layout.fields)
            yield _Symbol(_string(strings, name), info >> 4, section, value, size)


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
