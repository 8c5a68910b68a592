"""Blocks of keys and values in buffers of the thread's own, where reading them in place is slow."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.work import Work
from tvmbuild.compiler.kernels.attention.form import Operand
from tvmbuild.compiler.kernels.attention.places import Place
from tvmbuild.compiler.kernels.vectors import cut, load, local, store

_ALIASES = 1 << 12
"""Bytes after which addresses are of the same set of the nearest cache."""


def take_keys(work: Work, first: Any) -> Place:
    """Return the place of the keys of a block, and of those that its last tile begins with."""
    place, form, sizes = work.key, work.form, work.sizes
    if not _is_slow(place):
        return place
    count = min(form.keys, -(-sizes.keys // sizes.key_tile) * sizes.key_tile)
    start = T.Bind(tirx.Min(first, int64(form.keys - count)))
    copy = local(count * form.depth)
    _copy(work, copy, (start, int64(count)), place, form.depth)
    return Place(copy, T.Bind(-start * form.depth), _dense(form.depth))


def take_values(work: Work, first: Any, count: Any) -> Place:
    """Return the place of the values of ``count`` keys."""
    place, form = work.value, work.form
    if not _is_slow(place):
        return place
    copy = local(work.sizes.keys * form.width)
    _copy(work, copy, (first, count), place, form.width)
    return Place(copy, T.Bind(-first * form.width), _dense(form.width))


def _dense(width: int) -> Operand:
    return Operand(-1, 0, (), width, 1)


def _is_slow(place: Place) -> bool:
    """Say whether each number would be converted for itself, or rows would push one another out of the cache."""
    return str(place.buffer.dtype) != "float32" or any(
        step > 1 and 4 * step % _ALIASES == 0 for step in (place.operand.row, place.operand.column)
    )


def _copy(work: Work, copy: Any, keys: tuple[Any, Any], place: Place, width: int) -> None:
    first, count = keys
    lanes = work.sizes.width_lanes if place.operand.column == 1 else 1
    with T.serial(count) as key:
        if lanes == 1:
            with T.serial(int64(width)) as column:
                store(copy, load(place.buffer, place.at(first + key, column)), key * width + column)
        for begin, piece in cut(width, lanes) if lanes > 1 else ():
            value = load(place.buffer, place.at(first + key, int64(begin)), piece)
            store(copy, value, key * width + begin, piece)
