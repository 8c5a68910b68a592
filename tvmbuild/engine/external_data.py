"""Files beside an ONNX file that hold its weights, found without the onnx library, so that planning can look."""

from __future__ import annotations

import mmap
from pathlib import Path

from tvmbuild.base.external_data import locate_external

ENTRY = b"\x0a\x08location\x12"
"""How protobuf writes the key `location` of a tensor's `external_data`, up to the length of its value.

https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
"""


def list_external_data(model: Path) -> list[str]:
    """Return the existing files that the ONNX file names as external data, relative to its folder, sorted.

    TvmbuildError when it names one outside its folder, as ONNX itself forbids, or one that no file can have.
    """
    return sorted(location for location in _list_locations(model) if locate_external(model, location).is_file())


def _list_locations(model: Path) -> set[str]:
    if model.stat().st_size == 0:
        return set()
    locations = set()
    with model.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(ENTRY)
        while at != -1:
            length, start = _read_varint(data, at + len(ENTRY))
            locations.add(data[start : start + length].decode(errors="replace"))
            at = data.find(ENTRY, start)
    return {location for location in locations if location and "\0" not in location}


def _read_varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """Return the number and the position after it; a path's length fits in two bytes."""
    low = data[at] if at < len(data) else 0
    if low < 0x80 or at + 1 >= len(data):
        return low & 0x7F, at + 1
    return low & 0x7F | (data[at + 1] & 0x7F) << 7, at + 2
