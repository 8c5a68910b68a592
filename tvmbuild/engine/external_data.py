"""The files beside an ONNX file that hold its weights, found without the onnx library, for planning."""

from __future__ import annotations

import mmap
from pathlib import Path

from tvmbuild.base.external_data import locate_external

ENTRY = b"\x0a\x08location\x12"
"""The protobuf bytes of the key `location` in a tensor's `external_data`, up to the length of its value.

https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
"""
_MAX_BITS = 63


def list_external_data(model: Path) -> list[str]:
    """Return the existing files that the ONNX file names as external data, as sorted paths relative to its folder.

    Raises TvmbuildError if it names a file outside its folder, which ONNX forbids, or an impossible name.
    """
    return sorted(location for location in _list_locations(model) if locate_external(model, location).is_file())


def _list_locations(model: Path) -> set[str]:
    if model.stat().st_size == 0:
        return set()
    locations = set()
    with model.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(ENTRY)
        while at != -1:
            try:
                length, start = read_varint(data, at + len(ENTRY))
            except IndexError:  # the file is cut short
                break
            locations.add(data[start : start + length].decode(errors="replace"))
            at = data.find(ENTRY, start)
    return {location for location in locations if location and "\0" not in location}


def read_varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """Return the protobuf number at the position ``at``, and the position after it.

    Raises IndexError if the file ends within the number.
    """
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80 or shift > _MAX_BITS:
            return value, at
