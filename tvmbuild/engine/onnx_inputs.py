"""The inputs of an ONNX file and their shapes, found without the onnx library, for planning."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from tvmbuild.base.open_dimensions import Dim
from tvmbuild.engine.external_data import read_varint

_LENGTH = 2
"""The protobuf wire type of a field that begins with its length. Type 0 is a number, and types 1 and 5 have 8 and 4
bytes.
"""
_GRAPH, _INITIALIZER, _INPUT, _SPARSE = 7, 5, 11, 15
"""The field numbers in onnx.proto: the graph of a model, and the initializers, inputs and sparse initializers of a
graph.
"""
_TENSOR_NAME = 8

Field = tuple[int, int, int]
"""(field number, start of its content, its end). For a number the last two are its value and -1."""


def read_inputs(model: Path) -> dict[str, tuple[Dim, ...]]:
    """Return name → shape of the inputs that a caller must feed, or an empty dict if the file is not ONNX.

    An input that has no shape, or is not a tensor, is left out.
    """
    try:
        with model.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data)
    except (OSError, ValueError, IndexError):  # an empty file cannot be mapped
        return {}


def _read(data: mmap.mmap) -> dict[str, tuple[Dim, ...]]:
    weights: set[str] = set()
    found: dict[str, tuple[Dim, ...]] = {}
    for number, start, end in _walk(data, 0, len(data)):
        if number != _GRAPH:
            continue
        for of_graph, at, to in _walk(data, start, end):
            if of_graph == _INITIALIZER:
                weights.add(_text(data, at, to, _TENSOR_NAME))
            elif of_graph == _SPARSE:
                weights |= {_text(data, low, high, _TENSOR_NAME) for low, high in _inside(data, at, to, 1)}
            elif of_graph == _INPUT:
                found |= _read_input(data, at, to)
    return {name: dims for name, dims in found.items() if name not in weights}


def _read_input(data: mmap.mmap, start: int, end: int) -> dict[str, tuple[Dim, ...]]:
    """Return name → dimensions of a ValueInfoProto, or an empty dict if it has no tensor shape."""
    for low, high in _inside(data, start, end, 2):
        for at, to in _inside(data, low, high, 1):
            for first, last in _inside(data, at, to, 2):
                dims = tuple(_read_dim(data, *dim) for dim in _inside(data, first, last, 1))
                return {_text(data, start, end, 1): dims}
    return {}


def _read_dim(data: mmap.mmap, start: int, end: int) -> Dim:
    size: Dim = None
    for number, at, to in _walk(data, start, end):
        if number == 1 and to == -1:
            size = at if at < 1 << 63 else None  # -1, read as unsigned, means any size
        elif number == 2:
            size = data[at:to].decode(errors="replace") or None
    return size


def _inside(data: mmap.mmap, start: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    return ((at, to) for number, at, to in _walk(data, start, end) if number == wanted and to != -1)


def _text(data: mmap.mmap, start: int, end: int, wanted: int) -> str:
    return next((data[at:to].decode(errors="replace") for at, to in _inside(data, start, end, wanted)), "")


def _walk(data: mmap.mmap, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of a protobuf message. Raises ValueError or IndexError if the bytes are not a message."""
    at = start
    while at < end:
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = read_varint(data, at)
            yield number, value, -1
        elif wire == _LENGTH:
            length, at = read_varint(data, at)
            if at + length > end:
                raise ValueError("a field is cut short")
            yield number, at, at + length
            at += length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"no field has the wire type {wire}")
