"""The open dimensions that an exporter left in a model's inputs.

The batch is recognised and set. The user is asked for the sizes of the other open dimensions.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tvmbuild.base.specs import InputSpec
from tvmbuild.base.wording import name_some

Dim = int | str | None
"""A size, the name of an open dimension, or None if the open dimension has no name."""
Shapes = Mapping[str, tuple[Dim, ...]]
"""The shapes of all inputs of a model, by their names."""

PLACEHOLDERS = frozenset({"", "?", "-1", "None", "unknown"})
"""Names that exporters give to any open dimension: two dimensions with the same one may differ in size."""
BATCH_TAKEN = "batch taken as "
"""The beginning of the note about an assumed batch size."""
BATCH = re.compile(r"n|b|bs|unk__\d+|(.*[_./ ])?batch([_ ]?(size|dim|axis|num))?", re.IGNORECASE)
_NO_BATCH = re.compile(r"seq|len|time|step|frame|sample|token|height|width|past|audio", re.IGNORECASE)
"""A part of a name that rules out the batch, even for the only open dimension, because size 1 would make no sense."""
_NO_SIDE = re.compile(r"seq|len|time|step|token|past|audio|head", re.IGNORECASE)
"""A part of a name that rules out a picture's height or width."""
_SIZES = (
    (re.compile(r"past|cache", re.IGNORECASE), 16),
    (re.compile(r"sample|audio|wave", re.IGNORECASE), 16000),
    (re.compile(r"height|width|^[hw]$", re.IGNORECASE), 224),
)
_PICTURE, _USUAL = 224, 128
_RANK_OF_PICTURES = 4
_CHANNELS = (1, 3, 4)
_CALLED_CHANNELS = re.compile(r"c|.*channels?", re.IGNORECASE)
_WORDS = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE)
"""Words that YAML 1.1 reads as true, false or null unless they are quoted."""


@dataclass(frozen=True)
class Settled:
    """The shapes of a model's inputs after the sizes of the user and of the batch are filled in."""

    shapes: dict[str, tuple[Dim, ...]]
    """The shape of each input. Dimensions without a known size stay open."""
    batches: tuple[str, ...]
    """The names of the inputs whose first dimension is taken as the batch."""
    batch: int
    """The batch size."""
    sizes: dict[str, int]
    """The batch size, by each name that the inputs give to the batch."""

    def describe(self, model: str) -> str | None:
        """Return a note about the assumed batch size and its inputs, or None if no batch was assumed."""
        if not self.batches:
            return None
        stem = model.removesuffix(".onnx")
        return f"{BATCH_TAKEN}{self.batch}: {name_some([f'{stem}.{name}' for name in self.batches])}"


def settle(shapes: Shapes, specs: Sequence[InputSpec]) -> Settled:
    """Fill in the sizes of ``specs``, and the batch size, which is 1 unless the specs give another.

    A name has one size in all inputs. An input that gets a list of values has the shape of the list, so no batch is
    assumed for it.
    """
    asked = {spec.name: spec.shape for spec in specs if spec.shape}
    left_out = {spec.name for spec in specs if spec.value is not None and str(spec.value).lstrip().startswith("[")}
    given = {name: tuple(asked[name]) for name in asked if name in shapes and len(asked[name]) == len(shapes[name])}
    sizes = _bind(shapes, given)
    known = _apply({**shapes, **given}, sizes)
    elsewhere = {dim for dims in shapes.values() for dim in dims[1:]}
    chosen = {
        given[name][0] for name, dims in shapes.items() if name in given and is_batch(dims, elsewhere) and given[name]
    }
    batch = chosen.pop() if len(chosen) == 1 else 1
    found = tuple(name for name, dims in known.items() if name not in left_out and is_batch(dims, elsewhere))
    names = {dim: batch for name in found if (dim := known[name][0]) not in PLACEHOLDERS and isinstance(dim, str)}
    known = _apply(known, names)
    for name in found:
        known[name] = (batch, *known[name][1:])
    return Settled(known, found, batch, names)


def is_batch(dims: Sequence[Dim], elsewhere: Collection[Dim] = ()) -> bool:
    """Return whether the first dimension is open and is the batch.

    It is by its name, because it is the only open one, or because the others are those of a picture. The last two rules
    exclude a name that is also in ``elsewhere``, the later dimensions of all inputs, and a name with another meaning,
    such as `seq`.
    """
    if not dims or isinstance(dims[0], int):
        return False
    if dims[0] is None or dims[0] in PLACEHOLDERS or BATCH.fullmatch(dims[0]):
        return True
    is_known = all(isinstance(dim, int) for dim in dims[1:]) or find_picture_axes(dims) is not None
    return is_known and dims[0] not in elsewhere and not _NO_BATCH.search(dims[0])


def find_picture_axes(dims: Sequence[Dim]) -> tuple[int, int, int] | None:
    """Return the axes of the channels, height and width of a batch of pictures, or None for another shape.

    Its channels are 1, 3 or 4, or are called so, on the second axis or the last.
    """
    if len(dims) != _RANK_OF_PICTURES:
        return None
    for channels, height, width in ((1, 2, 3), (3, 1, 2)):
        dim, sides = dims[channels], (dims[height], dims[width])
        if any(isinstance(side, str) and _NO_SIDE.search(side) for side in sides):
            continue
        if dim in _CHANNELS or (isinstance(dim, str) and _CALLED_CHANNELS.fullmatch(dim)):
            return channels, height, width
    return None


def list_open(shapes: Shapes) -> dict[str, list[int]]:
    """Return the numbers of the open axes of each input that has any."""
    found = {name: [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)] for name, dims in shapes.items()}
    return {name: axes for name, axes in found.items() if axes}


@dataclass(frozen=True)
class Question:
    """The question to the user for the sizes of dimensions that are still open."""

    message: str
    hint: str
    stand_ins: dict[str, tuple[int, ...]]
    """The shapes of all inputs, with example sizes for the open dimensions."""
    stands: tuple[str, ...]
    """A text for each example size: `128 stands for sequence`."""


def ask_for(shapes: Shapes, model: str) -> Question:
    """Return the question for the open sizes of ``shapes``. At least one dimension must be open.

    The hint has a line of YAML and `--shape` options to paste. Both name all inputs that have dimensions.
    """
    open_axes = list_open(shapes)
    sizes = _draw_sizes(shapes)
    filled = {
        name: tuple(dim if isinstance(dim, int) else _look_up(sizes, name, axis, dim) for axis, dim in enumerate(dims))
        for name, dims in shapes.items()
    }
    told = {name: ", ".join(_name(axis, shapes[name][axis]) for axis in axes) for name, axes in open_axes.items()}
    if len(told) == 1:
        ((name, axes_told),) = told.items()
        message = f"{model}: the input {name} has dynamic dimensions: {axes_told}"
    else:
        message = (
            f"{model}: inputs have dynamic dimensions: {'; '.join(f'{name} {axes}' for name, axes in told.items())}"
        )
    asked = {name: shape for name, shape in filled.items() if shape}
    yaml = ", ".join(f"{quote_name(name)}: {{shape: {list(shape)}}}" for name, shape in asked.items())
    words = " ".join(_tell(name, shape) for name, shape in asked.items())
    stands: dict[int, list[str]] = {}
    for name, axes in open_axes.items():
        for axis in axes:
            meant = stands.setdefault(filled[name][axis], [])
            meant += [called] if (called := _call(name, axis, shapes[name][axis])) not in meant else []
    shown = tuple(f"{size} stands for {name_some(meant)}" for size, meant in stands.items())
    hint = f"fix them in models.yaml, under {model}: `inputs: {{{yaml}}}` (for `tvmbuild check`: `{words}`)"
    hint = f"{hint}; {'; '.join(shown)}"
    return Question(message, hint, filled, shown)


def _bind(shapes: Shapes, given: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the size of each named dimension if all given shapes agree on it."""
    found: dict[str, set[int]] = {}
    for name, sizes in given.items():
        for dim, size in zip(shapes[name], sizes, strict=True):
            if isinstance(dim, str) and dim not in PLACEHOLDERS:
                found.setdefault(dim, set()).add(size)
    return {dim: next(iter(sizes)) for dim, sizes in found.items() if len(sizes) == 1}


def _apply(shapes: Shapes, sizes: Mapping[str, int]) -> dict[str, tuple[Dim, ...]]:
    return {
        name: tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in dims)
        for name, dims in shapes.items()
    }


def _draw_sizes(shapes: Shapes) -> dict[str | tuple[str, int], int]:
    """Return an example size for each open dimension, by its name, or by (input, axis) if it has no name of its own."""
    sizes: dict[str | tuple[str, int], int] = {}
    for name, dims in shapes.items():
        for axis, dim in enumerate(dims):
            if not isinstance(dim, int):
                key = (name, axis) if dim is None or dim in PLACEHOLDERS else dim
                sizes.setdefault(key, _guess(dims, axis))
    return sizes


def _look_up(sizes: Mapping[str | tuple[str, int], int], name: str, axis: int, dim: str | None) -> int:
    return sizes[(name, axis)] if dim is None or dim in PLACEHOLDERS else sizes[dim]


def _guess(dims: Sequence[Dim], axis: int) -> int:
    dim = dims[axis]
    if isinstance(dim, str):
        parts = [part.strip() for part in dim.split("+")]
        if len(parts) > 1:
            return sum(int(part) if part.isdigit() else _guess([part], 0) for part in parts)
        for pattern, size in _SIZES:
            if pattern.search(dim):
                return size
        if _NO_BATCH.search(dim):
            return _USUAL
    if is_batch(dims[axis:]) and axis == 0 and len(dims) > 1:
        return 1
    if len(dims) == _RANK_OF_PICTURES:
        channels, *_ = find_picture_axes(dims) or (1, 2, 3)
        return {0: 1, channels: 3}.get(axis, _PICTURE)
    return _USUAL


def _name(axis: int, dim: Dim) -> str:
    return f"{axis} ({dim})" if dim not in PLACEHOLDERS and dim is not None else str(axis)


def _tell(name: str, shape: Sequence[int]) -> str:
    between = "=" if name.startswith("-") else " "  # else argparse would take the name for an option
    return f"--shape{between}{shlex.quote(name)}={','.join(map(str, shape))}"


def _call(name: str, axis: int, dim: Dim) -> str:
    return str(dim) if dim not in PLACEHOLDERS and dim is not None else f"dimension {axis} of {name}"


def quote_name(name: str) -> str:
    """Return the name as a key or a value of a YAML map in braces, quoted if it must be."""
    is_plain = re.fullmatch(r"[A-Za-z_][\w./-]*", name, re.ASCII) and not _WORDS.fullmatch(name)
    return name if is_plain else json.dumps(name, ensure_ascii=False)
