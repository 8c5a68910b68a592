"""The lines of models.yaml for one package of several sizes, proposed for the open dimensions of a model's inputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tvmbuild.base.open_dimensions import (
    BATCH,
    PLACEHOLDERS,
    Dim,
    Shapes,
    find_picture_axes,
    is_batch,
    quote_name,
)
from tvmbuild.base.size_specs import MAX_LETTERS, Axis

_LETTERS = (
    (re.compile(r"past|cache", re.IGNORECASE), "P"),
    (re.compile(r"height|^h$", re.IGNORECASE), "H"),
    (re.compile(r"width|^w$", re.IGNORECASE), "W"),
    (re.compile(r"seq|len|time|step|frame|token|sample|audio|^t$", re.IGNORECASE), "T"),
)
_NAMELESS = re.compile(r"s\d+|unk\w*|.*dim(ension)?[._]?\d+|dynamic_axes_\d+", re.IGNORECASE)
"""Names that exporters number, and that say nothing."""
_SPARE = ("N", "M", "K", "L", "P", "Q", "R", "S", "U", "V", "X", "Y", "Z", "A", "C", "D", "E", "F", "G", "I", "J", "O")
_EXAMPLES = {"B": [1, 8], "T": [16, 32, 64, 128], "H": [320, 480], "W": [320, 640]}
_OTHERS = [64, 128]
"""Example sizes by letter, and those of other letters."""
_PAIRS = '"H,W": [[320, 320], [480, 640]]'
_IDS = re.compile(r"(?!.*(type|position|segment)).*ids?", re.IGNORECASE)
"""Names of tokens, which padding fills up with 0."""

Key = str | tuple[str, int]
"""A dimension: its name, or for a nameless one its letter and its number among its input's nameless ones."""


def propose_sizes(shapes: Shapes, dtypes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines of models.yaml for a package of several sizes. ``dtypes`` has the type of each input.

    They are none if no dimension is open, or if a size depends on others, for example `past + sequence`.
    """
    lettered = _choose_letters(shapes)
    used = sorted({axis for dims in lettered.values() for axis in dims if isinstance(axis, str)})
    numbers = [axis for dims in lettered.values() for axis in dims if isinstance(axis, int)]
    sums = any("+" in dim for dims in shapes.values() for dim in dims if isinstance(dim, str))
    if not used or len(used) > MAX_LETTERS or sums or 0 in numbers:
        return ()
    shown = ", ".join(
        f"{quote_name(name)}: {{shape: [{', '.join(map(str, dims))}]}}" for name, dims in lettered.items() if dims
    )
    pairs = {"H", "W"} <= set(used)
    sizes = [f"{letter}: {_EXAMPLES.get(letter, _OTHERS)}" for letter in used if not (pairs and letter in "HW")]
    sizes += [_PAIRS] if pairs else []
    pad, exact = _propose_pad(lettered, dtypes)
    refused = f"  # any other {' or '.join(exact)} is refused: no input masks padding" if exact else ""
    return f"inputs: {{{shown}}}", f"sizes: {{{', '.join(sizes)}}}{refused}", *pad


def _choose_letters(shapes: Shapes) -> dict[str, tuple[Axis, ...]]:
    """Return the shape of each input with a letter for each open dimension. Dimensions of one name have one letter."""
    letters: dict[Key, str] = {}
    elsewhere = {dim for dims in shapes.values() for dim in dims[1:]}
    return {name: tuple(_letter_input(dims, letters, elsewhere)) for name, dims in shapes.items()}


def _letter_input(dims: Sequence[Dim], letters: dict[Key, str], elsewhere: Collection[Dim]) -> Iterator[Axis]:
    """Yield a number or a letter for each dimension, and add the new letters to ``letters``."""
    counts: dict[str, int] = {}
    for place, dim in enumerate(dims):
        if isinstance(dim, int):
            yield dim
            continue
        wanted = _want_letter(dims, place, elsewhere)
        if wanted == "C":
            yield 3
            continue
        key: Key = dim if dim is not None and dim not in PLACEHOLDERS else (wanted, counts.get(wanted, 0))
        counts[wanted] = counts.get(wanted, 0) + 1
        if key not in letters:
            is_free = wanted == "B" or wanted not in letters.values()
            letters[key] = wanted if is_free else next(each for each in _SPARE if each not in letters.values())
        yield letters[key]


def _want_letter(dims: Sequence[Dim], place: int, elsewhere: Collection[Dim]) -> str:
    """Return the letter of an open dimension by its name and place. All batches have B; C stands for channels."""
    dim = dims[place]
    name = "" if dim is None or dim in PLACEHOLDERS or _NAMELESS.fullmatch(str(dim)) else str(dim)
    picture = find_picture_axes(dims)
    if place == 0 and (is_batch(dims, elsewhere) or (not name and len(dims) > 1 and dim not in elsewhere)):
        return "B"
    if picture is not None and place in picture:
        return "CHW"[picture.index(place)]
    if len(name) > 1 and BATCH.fullmatch(name):
        return "B"
    told = next((letter for pattern, letter in _LETTERS if name and pattern.search(name)), None)
    is_sequence = not name and place == 1 and len(dims) in (2, 3)
    return told or ("T" if is_sequence else "N")


def _propose_pad(
    lettered: Mapping[str, Sequence[Axis]], dtypes: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the line with `pad`, if masks have all letters but the batch, and the letters that cannot be padded."""
    letters = sorted({axis for dims in lettered.values() for axis in dims if isinstance(axis, str)} - {"B"})
    whole = {name for name in lettered if dtypes.get(name, "").startswith(("int", "uint", "bool"))}
    masks = [name for name in lettered if name in whole and "mask" in name.lower()]
    unmasked = tuple(letter for letter in letters if not any(letter in lettered[name] for name in masks))
    if unmasked or not letters:
        return (), unmasked and tuple(letters)
    tokens = [name for name in lettered if name in whole and _IDS.fullmatch(name)]
    filled = [name for name in (*masks, *tokens) if set(lettered[name]) & set(letters)]
    return (f"pad: {{{', '.join(f'{quote_name(name)}: 0' for name in dict.fromkeys(filled))}}}",), ()
