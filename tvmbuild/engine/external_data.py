"""Files beside an ONNX file that hold its weights, found without the onnx library, so that planning can look."""

from __future__ import annotations

import mmap
import os
from pathlib import Path, PurePath

from tvmbuild.errors import TvmbuildError

ENTRY = b"\x0a\x08location\x12"
"""How protobuf writes the key `location` of a tensor's `external_data`, up to the length of its value.

https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
"""


def list_external_data(model: Path) -> list[str]:
    """Return the existing files that the ONNX file names as external data, relative to its folder, sorted.

    TvmbuildError when it names one outside its folder, as ONNX itself forbids, or one that no file can have.
    """
    return sorted(location for location in _list_locations(model) if _is_file(model, location))


def _is_file(model: Path, location: str) -> bool:
    shown = repr(location if len(location) <= 60 else f"{location[:57]}…")
    # Compared as text, as ONNX does: `a/../weights` stays inside.
    if PurePath(location).is_absolute() or PurePath(os.path.normpath(location)).parts[:1] == ("..",):
        raise TvmbuildError(
            f"{model} names external data outside its folder: {shown}",
            "Put the data beside the ONNX file and save the model with a relative path.",
        )
    try:
        return (model.parent / location).is_file()
    except OSError as error:
        raise TvmbuildError(
            f"{model} names external data that cannot be read: {shown}: {error.strerror}",
            "Save the model again, with its data under a short name beside it.",
        ) from error


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
