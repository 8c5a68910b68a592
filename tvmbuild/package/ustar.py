"""Read the plain tar archives that packages are, and nothing else: no links, no sparse files, no extensions.

Not Python's tarfile: it follows headers that claim what the file does not hold (sparse files of any size, negative
sizes that it never ends on). `cpp/parts/archive.h` reads the same way: change both.
"""

from __future__ import annotations

from collections.abc import Collection

_BLOCK = 512
_REGULAR = b"0\0"


class DamagedArchiveError(ValueError):
    """The archive is not what a package's is; the text says how."""


def read_members(data: bytes, names: Collection[str]) -> dict[str, memoryview]:
    """Return the members of an archive by name; DamagedArchiveError unless all are regular files of these names."""
    members: dict[str, memoryview] = {}
    view = memoryview(data)
    position = 0
    while position + _BLOCK <= len(data) and any(view[position : position + _BLOCK]):
        header = bytes(view[position : position + _BLOCK])
        name, size = _read_header(header)
        # Only plain names that are expected are ever accepted, so that no member can leave the folder.
        if name not in names or name in members or header[156] not in _REGULAR:
            raise DamagedArchiveError(f"unexpected member {name!r}")
        position += _BLOCK
        if position + size > len(data):
            raise DamagedArchiveError(f"{name} is cut short")
        members[name] = view[position : position + size]
        position += (size + _BLOCK - 1) // _BLOCK * _BLOCK
    if not members:
        raise DamagedArchiveError("no readable archive: it begins with no file")
    if position >= len(data):
        raise DamagedArchiveError("no readable archive: it has no end")
    return members


def _read_header(header: bytes) -> tuple[str, int]:
    checked = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    if header[257:262] != b"ustar" or _octal(header[148:156]) != checked:
        raise DamagedArchiveError("no readable archive: a header is damaged")
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    size = _octal(header[124:136])
    if size is None:
        raise DamagedArchiveError("no readable archive: a header is damaged")
    return (prefix + b"/" * bool(prefix) + name).decode(errors="replace"), size


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and all(digit in b"01234567" for digit in digits) else None
