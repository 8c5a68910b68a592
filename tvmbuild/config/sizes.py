"""The keys `sizes` and `pad` of models.yaml: the sizes of a model whose shapes have letters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import MAX_LETTERS, MAX_SIZES, Axis, Range, Size, Sizes, sort_sizes
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath

_LARGEST_BUILT = 64
"""The largest value of a range that has a function by default. Above it, a call takes hardly less time for a row."""


def check_sizes(document: Document, path: KeyPath, own: dict[str, Any]) -> None:
    """Report letters without sizes, sizes without a use, and values that do not fit together."""
    if not (document.is_sound((*path, "inputs")) and document.is_sound((*path, "sizes"))):
        return
    shapes, sizes = _list_shapes(own), own.get("sizes") or {}
    letters = list(_list_letters(sizes))
    used = {axis for shape in shapes.values() for axis in shape if isinstance(axis, str)}
    for name, shape in shapes.items():
        for place, axis in enumerate(shape):
            if isinstance(axis, str) and axis not in letters:
                expected = f"a number, or `sizes: {{{axis}: [16, 64]}}` beside `inputs`"
                here = (*path, "inputs", name, "shape", place)
                document.report(here, f"{axis} has no sizes", expected, find_nearest(axis, letters))
        if "value" in own["inputs"][name]:
            document.report_key((*path, "inputs", name, "value"), "an input of varying shape has a value", "no `value`")
    _check_keys(document, (*path, "sizes"), sizes, used)
    _check_ranges(document, path, own, shapes)
    if len(letters) > MAX_LETTERS:
        document.report_key((*path, "sizes"), f"{len(letters)} letters", f"at most {MAX_LETTERS}")
    if sizes and document.is_sound((*path, "sizes")) and (count := len(list(_combine(sizes)))) > MAX_SIZES:
        what = f"{count} sizes: letters that are listed apart are combined in every way"
        document.report_key((*path, "sizes"), what, f'at most {MAX_SIZES}, for example pairs, "H,W": [[320, 320]]')
    _check_pad(document, path, own, shapes)


def _check_keys(document: Document, path: KeyPath, sizes: Mapping[str, Any], used: set[str]) -> None:
    seen: set[str] = set()
    for key, values in sizes.items():
        letters = _split(key)
        for letter in letters:
            if letter in seen:
                document.report_key((*path, key), f"{letter} has sizes twice", "each letter once")
            elif letter not in used:
                expected = f"a letter in a `shape:` of `inputs`, for example `shape: [1, {letter}]`"
                document.report_key((*path, key), f"no input has {letter} in its shape", expected)
            seen.add(letter)
        if not isinstance(values, list):
            continue  # a range
        for place, value in enumerate(values):
            _check_value(document, (*path, key, place), letters, value)
        if len({_freeze(value) for value in values}) < len(values):
            document.report((*path, key), "a size is listed twice", "each size once")


def _check_ranges(document: Document, path: KeyPath, own: dict[str, Any], shapes: Mapping[str, Sequence[Axis]]) -> None:
    """Report ranges that are empty, that are not of a batch, or that do not fit other keys of the model."""
    ranges = {key: value for key, value in (own.get("sizes") or {}).items() if not isinstance(value, list)}
    for place, (key, value) in enumerate(ranges.items()):
        at = (*path, "sizes", key)
        if "," in key:
            document.report_key(at, "a range is of one letter", "the letter of the batch alone, for example B: 1..256")
        elif place > 0:
            document.report_key(
                at, f"{next(iter(ranges))} has a range, too", "one range for a model: that of the batch"
            )
        elif any(shape.count(key) > 1 for shape in shapes.values()):
            document.report_key(at, f"{key} is twice in a shape", "the batch, which is one axis of each input")
        else:
            _check_range(document, at, key, value)


def _check_range(document: Document, at: KeyPath, letter: str, value: Any) -> None:
    is_long = isinstance(value, dict)
    whole = read_range(letter, value["range"] if is_long else value)
    if whole.first >= whole.last:
        document.report(
            (*at, "range") if is_long else at,
            f"{whole.first}..{whole.last} has less than two values",
            "a range such as 1..256",
        )
    elif is_long:
        for place, each in enumerate(value["build"]):
            if not whole.first <= each <= whole.last:
                expected = f"a value from {whole.first} to {whole.last}"
                document.report((*at, "build", place), f"{each} is not in the range", expected)
        if len(set(value["build"])) < len(value["build"]):
            document.report((*at, "build"), "a size is listed twice", "each size once")
        elif min(value["build"]) != whole.first:
            expected = f"{whole.first}, too: the range's first value cannot be made of larger parts"
            document.report((*at, "build"), f"{whole.first} is missing", expected)


def read_range(letter: str, text: str) -> Range:
    """Return the range in a text such as `1..256`."""
    first, _, last = text.partition("..")
    return Range(letter, int(first), int(last))


def choose_built(whole: Range) -> list[int]:
    """Return the values of a range that have a function by default: powers of four, and a last one up to 64."""
    found, value = [], whole.first
    most = min(whole.last, max(_LARGEST_BUILT, whole.first))
    while value <= most:
        found.append(value)
        value *= 4
    return sorted({*found, most})


def _check_value(document: Document, path: KeyPath, letters: Sequence[str], value: Any) -> None:
    given = len(value) if isinstance(value, list) else 1
    if isinstance(value, list) == (len(letters) == 1) or given != len(letters):
        wanted = "a number" if len(letters) == 1 else f"[{', '.join(letters)}], {len(letters)} numbers"
        document.report(path, f"does not fit {','.join(letters)}", wanted)


def _check_pad(document: Document, path: KeyPath, own: dict[str, Any], shapes: Mapping[str, Sequence[Axis]]) -> None:
    pad = own.get("pad")
    if not isinstance(pad, dict) or not document.is_sound((*path, "pad")):
        return
    if not own.get("sizes"):
        document.report_key((*path, "pad"), "nothing is padded without `sizes`", "`sizes` too")
    varying = [name for name, shape in shapes.items() if any(isinstance(axis, str) for axis in shape)]
    for name, value in pad.items():
        if float(value) != value:
            document.report((*path, "pad", name), f"{value} would be rounded to {float(value):.0f}", "a smaller number")
        if own.get("sizes") and name not in varying:
            expected = f"an input with a letter in its shape: {', '.join(varying)}"
            document.report_key((*path, "pad", name), f"{name} has one shape", expected, find_nearest(name, varying))


def make_sizes(data: dict[str, Any]) -> Sizes | None:
    """Return the sizes of a checked model, or None if its shapes do not vary."""
    if not data.get("sizes"):
        return None
    shapes = {name: tuple(shape) for name, shape in sorted(_list_shapes(data).items())}
    varying = {name: shape for name, shape in shapes.items() if any(isinstance(axis, str) for axis in shape)}
    choices = sort_sizes(varying, [Size(FrozenMap(values)) for values in _combine(data["sizes"])])
    pad = FrozenMap(sorted((name, float(value)) for name, value in data.get("pad", {}).items()))
    ranges = (_read_key(key, value)[0] for key, value in data["sizes"].items())
    return Sizes(FrozenMap(varying), choices, pad, next((each for each in ranges if each), None))


def _combine(sizes: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Yield the values of all letters for each size: every way to choose one value of each key."""
    for chosen in itertools.product(*(_read_key(key, value)[1] for key, value in sizes.items())):
        yield {
            letter: int(value)
            for key, values in zip(sizes, chosen, strict=True)
            for letter, value in zip(_split(key), values if isinstance(values, list) else [values], strict=True)
        }


def _read_key(letter: str, value: Any) -> tuple[Range | None, list[Any]]:
    """Return the range of a key of `sizes` if it has one, and the values that have functions."""
    if isinstance(value, list):
        return None, value
    if isinstance(value, dict):
        return read_range(letter, value["range"]), value["build"]
    whole = read_range(letter, value)
    return whole, choose_built(whole)


def _list_shapes(own: Mapping[str, Any]) -> dict[str, list[Axis]]:
    inputs = own.get("inputs")
    items = inputs.items() if isinstance(inputs, dict) else ()
    return {
        name: item["shape"]
        for name, item in items
        if isinstance(item, dict) and any(isinstance(axis, str) for axis in item.get("shape", ()))
    }


def _list_letters(sizes: Mapping[str, Any]) -> Iterator[str]:
    for key in sizes:
        yield from _split(key)


def _split(key: str) -> list[str]:
    return [letter.strip() for letter in key.split(",")]


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
