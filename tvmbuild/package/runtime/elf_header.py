"""A check that a shared library is complete. The system's loader trusts the header, and crashes if the file is cut."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SHARED = 3
_MAGIC = b"\x7fELF\x02\x01"
"""The beginning of a 64-bit little-endian ELF file, like those in all packages."""


def find_damage(library: bytes) -> str | None:
    """Return why the bytes are not a complete 64-bit shared library, or None if the headers show no fault."""
    if len(library) < _HEADER.size or not library.startswith(_MAGIC):
        return "it is no 64-bit ELF file"
    fields = _HEADER.unpack_from(library)
    kind, segments_at, segment_size, segments = fields[1], fields[5], fields[9], fields[10]
    if kind != _SHARED or segment_size != _SEGMENT.size:
        return "it is not a shared library"
    if segments_at + segments * segment_size > len(library):
        return "it is cut short"
    for index in range(segments):
        _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(library, segments_at + index * segment_size)
        if offset + size > len(library):
            return "it is cut short"
    return None
