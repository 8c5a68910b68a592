"""The layout of ``mod.params``: a file of TVM's ``save_param_dict`` whose tensors can be used where they lie.

TVM's format has no gaps, and compiled code needs tensors at multiples of 64 bytes. Therefore a tensor of bytes that the
code does not use, called `~…`, fills the gap before a weight. TVM reads the file as any other.
`cpp/parts/weights.h` reads the same way: change both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""The alignment of each weight in the file, which is at a multiple of 512 in the archive."""
FILLER = "~"
"""The beginning of the names of tensors that only fill gaps."""
_LIST_MAGIC, _TENSOR_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
_CPU, _UINT = 1, 1
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_BOOL = 6
_NUMBER = struct.Struct("<Q")
_HEADER = struct.Struct("<QQiiiBBH")  # magic, reserved, device's type and number, axes, kind, bits, lanes


@dataclass(frozen=True)
class Weight:
    """A tensor in the file."""

    name: str
    dtype: str | None
    """NumPy's name of the type, or bfloat16. None for a type that only TVM reads."""
    shape: tuple[int, ...]
    header: int
    """The position of the tensor's header."""
    start: int
    """The position of its first element."""
    size: int
    """Its size in bytes."""


def read_weights(data: bytes | memoryview) -> list[Weight]:
    """Return the tensors of a parameter file in the file's order, fillers too. Raises ValueError if it is damaged."""
    try:
        return _read(data)
    except struct.error as error:
        raise ValueError("it is cut short") from error


def join_weights(files: Sequence[bytes]) -> tuple[bytes, list[tuple[int, ...]]]:
    """Return one parameter file with the tensors of several, equal ones once, and for each file their places in it.

    The places are in the order of a file's names. Empty files have no tensors. Raises ValueError if one is damaged.
    """
    blocks: dict[bytes, int] = {}
    places = []
    for data in files:
        tensors = [each for each in read_weights(data) if not each.name.startswith(FILLER)] if data else []
        tensors.sort(key=lambda each: each.name)
        contents = [bytes(data[each.header : each.start + each.size]) for each in tensors]
        places.append(tuple(blocks.setdefault(block, len(blocks)) for block in contents))
    return _join([f"p{number:06d}" for number in range(len(blocks))], blocks), places


def align_weights(data: bytes) -> bytes:
    """Return a parameter file with the same tensors, each at a multiple of 64 bytes, in the same order."""
    tensors = read_weights(data)
    names, blocks = [], []
    fixed = sum(_NUMBER.size + len(each.name.encode()) for each in tensors)
    # A filler's name has six bytes, and each weight gets one: the length of the list of names must be known first.
    position = 4 * _NUMBER.size + fixed + len(tensors) * (_NUMBER.size + 6)
    for number, each in enumerate(tensors):
        header = each.start - each.header
        # At least one byte: TVM cannot read an empty tensor.
        gap = -(position + _HEADER.size + 2 * _NUMBER.size + header) % ALIGNMENT or ALIGNMENT
        filler = _HEADER.pack(_TENSOR_MAGIC, 0, _CPU, 0, 1, _UINT, 8, 1) + 2 * _NUMBER.pack(gap) + bytes(gap)
        block = filler + data[each.header : each.start + each.size]
        names += [f"{FILLER}{number:05d}", each.name]
        blocks.append(block)
        position += len(block)
    return _join(names, blocks)


def _join(names: Sequence[str], blocks: Iterable[bytes]) -> bytes:
    """Return a parameter file of tensors, each with its header."""
    encoded, count = [name.encode() for name in names], _NUMBER.pack(len(names))
    listed = b"".join(_NUMBER.pack(len(name)) + name for name in encoded)
    return _NUMBER.pack(_LIST_MAGIC) + _NUMBER.pack(0) + count + listed + count + b"".join(blocks)


def _read(data: bytes | memoryview) -> list[Weight]:
    magic, _, count = struct.unpack_from("<QQQ", data, 0)
    if magic != _LIST_MAGIC:
        raise ValueError("it is not a file of weights")
    position, names = 3 * _NUMBER.size, []
    if count > len(data):
        raise ValueError("it is cut short")
    for _ in range(count):
        (length,) = _NUMBER.unpack_from(data, position)
        position += _NUMBER.size
        names.append(bytes(data[position : position + length]).decode(errors="replace"))
        position += length
    if _NUMBER.unpack_from(data, position) != (count,):
        raise ValueError("its lists do not agree")
    position += _NUMBER.size
    tensors = []
    for name in names:
        tensors.append(_read_tensor(data, position, name))
        position = tensors[-1].start + tensors[-1].size
    return tensors


def _read_tensor(data: bytes | memoryview, header: int, name: str) -> Weight:
    magic, _, _, _, axes, kind, bits, lanes = _HEADER.unpack_from(data, header)
    if magic != _TENSOR_MAGIC or not 0 <= axes <= len(data):
        raise ValueError("a tensor's header is damaged")
    shape = struct.unpack_from(f"<{axes}q", data, header + _HEADER.size)
    at = header + _HEADER.size + axes * _NUMBER.size
    (size,) = _NUMBER.unpack_from(data, at)
    start = at + _NUMBER.size
    if any(extent < 0 for extent in shape) or math.prod(shape) * ((bits * lanes + 7) // 8) != size:
        raise ValueError("a tensor's size does not fit its shape")
    if start + size > len(data):
        raise ValueError("it is cut short")
    dtype = "bool" if (kind, bits) == (_BOOL, 8) else f"{_KINDS[kind]}{bits}" if kind in _KINDS else None
    return Weight(name, dtype if lanes == 1 and bits % 8 == 0 else None, shape, header, start, size)
