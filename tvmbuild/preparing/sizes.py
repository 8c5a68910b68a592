"""The sizes of a model: the axes of outputs that vary, and the letters along which inputs may be padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import Axis, Size, Sizes
from tvmbuild.base.specs import InputSpec, SimplifyOptions, Tolerance, fix_inputs_at
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.package.padding import cut, pad_inputs
from tvmbuild.preparing.model_file import read_model
from tvmbuild.preparing.original import open_original
from tvmbuild.preparing.reference import Reference, make_inputs

_CHECKED = 3
"""The number of sizes at which the padding of a letter is checked: the smallest, the largest, and one between them."""


@dataclass(frozen=True)
class SizedModel:
    """A model whose shapes vary: its file, its inputs, and its sizes."""

    path: Path
    name: str
    inputs: tuple[InputSpec, ...]
    sizes: Sizes
    options: SimplifyOptions

    def compute(self, size: Size, feed: Mapping[str, np.ndarray] | None = None) -> Reference:
        """Return the original's outputs at a size, for drawn inputs if there is no feed."""
        inputs = fix_inputs_at(self.inputs, self.sizes, size)
        original = open_original(read_model(self.path, self.name), inputs, self.name, self.options.seed)
        return original.compute([feed or make_inputs(original.tensors, inputs, self.options.seed)])[0]

    def is_batch(self, letter: str) -> bool:
        """Return whether a letter is the first axis of every input that has it, and no other axis."""
        places = {place for shape in self.sizes.inputs.values() for place, axis in enumerate(shape) if axis == letter}
        return places == {0}


@dataclass(frozen=True)
class Padding:
    """The letters along which inputs may be padded, and the axes of the outputs that are cut then."""

    letters: tuple[str, ...]
    outputs: FrozenMap[str, tuple[Axis, ...]]
    """The shape of each output; a letter stands for an axis whose length equals the letter's value in every run."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the JSON value of `sizes.json`."""
        outputs = {name: list(shape) for name, shape in self.outputs.items()}
        return {"format": 1, "padded": list(self.letters), "outputs": outputs, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, value: Mapping[str, list[str]]) -> Padding:
        """Return the padding in `sizes.json`."""
        outputs: Mapping[str, Sequence[Axis]] = value["outputs"]  # type: ignore[assignment]
        shapes = FrozenMap((name, tuple(shape)) for name, shape in sorted(outputs.items()))
        return cls(tuple(value["padded"]), shapes, tuple(value["notes"]))


def find_padding(model: SizedModel, references: Mapping[Size, Reference]) -> Padding:
    """Return the letters along which padded inputs give the original's outputs, apart from additional elements.

    A batch is tried on its own. Other letters are tried if the model has `pad`. Raises TvmbuildError if padded inputs
    then give other outputs.
    """
    runs = list_shapes(references)
    notes: list[str] = []
    padded = []
    for letter in model.sizes.choices[-1].values:
        in_parts = model.sizes.range is not None and model.sizes.range.letter == letter
        batch = model.is_batch(letter) or in_parts
        if not batch and not model.sizes.pad:
            continue
        report_progress(f"comparing inputs that are padded along {letter} with exact ones")
        try:
            problem = _try_letter(model, letter, runs)
        except TvmbuildError as error:
            if not batch:
                raise
            problem = error.message  # a batch that the user did not ask for
        if problem is None:
            padded.append(letter)
        elif batch and not in_parts:
            notes.append(f"inputs are not padded along {letter}: {problem}")
        else:
            raise _refuse(model, letter, problem)
    if len(padded) > 1:
        trial = _shrink(model.sizes.choices[-1], padded), model.sizes.choices[-1]
        problem = _compare(model, {trial[0]: model.compute(trial[0])}, trial, find_axes(runs))
        if problem is not None:
            raise _refuse(model, " and ".join(padded), problem)
    return Padding(tuple(padded), find_axes(runs), tuple(notes))


def check_pad(sizes: Sizes, inputs: Sequence[TensorInfo], model: str) -> None:
    """Raise TvmbuildError if an input's type does not have the number that pads it.

    A floating-point type rounds, so it has every number that it does not round to infinity.
    """
    for each in inputs:
        if each.name not in sizes.pad:
            continue
        value = sizes.pad[each.name]
        expected = _expect_pad(value, np.dtype(each.dtype))
        if expected is not None:
            told = repr(value).removesuffix(".0")
            raise TvmbuildError(
                f"{model}: `pad` fills {each.name} up with {told}, which {each.dtype} does not have",
                f"correct `pad: {{{each.name}: …}}` in models.yaml, under {model}: {expected}",
            )


def _expect_pad(value: float, dtype: np.dtype[Any]) -> str | None:
    """Return the range of a type in words, or None if the value is in it."""
    if dtype.kind == "b":
        return None if value in (0, 1) else "0 or 1"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        is_one = value.is_integer() and int(limits.min) <= int(value) <= int(limits.max)
        return None if is_one else f"a whole number from {limits.min} to {limits.max}"
    with np.errstate(over="ignore"):
        return None if np.isfinite(np.array(value).astype(dtype)) else f"a number that fits {dtype.name}"


Runs = dict[Size, dict[str, tuple[int, ...]]]
"""The shape of each output in the run of a size."""


def list_shapes(references: Mapping[Size, Reference]) -> Runs:
    """Return the shapes of the outputs at each size."""
    return {size: {name: value.shape for name, value in each.outputs.items()} for size, each in references.items()}


def _try_letter(model: SizedModel, letter: str, runs: Runs) -> str | None:
    """Return how padding along a letter changes the outputs, or None. The exact runs are added to ``runs``."""
    trials = _list_trials(model.sizes, letter)
    exact = {size: model.compute(size) for size, _ in trials}
    runs |= list_shapes(exact)
    shapes = find_axes(runs)
    return next((said for trial in trials if (said := _compare(model, exact, trial, shapes))), None)


def _shrink(size: Size, letters: Sequence[str]) -> Size:
    """Return a size that is smaller by 1 along each of these letters, where it can be."""
    values = size.values.items()
    return Size(FrozenMap((letter, max(1, value - 1) if letter in letters else value) for letter, value in values))


def _refuse(model: SizedModel, letters: str, problem: str) -> TvmbuildError:
    return TvmbuildError(
        f"{model.name}: inputs that are padded along {letters} give other results: {problem}",
        "give `pad` the input that masks the padding, with the value that masks; without `pad`, a package takes the "
        "sizes of `sizes` alone",
    )


def find_axes(runs: Mapping[Size, Mapping[str, tuple[int, ...]]]) -> FrozenMap[str, tuple[Axis, ...]]:
    """Return the shape of each output; a letter stands for an axis whose length equals the letter's value in every run.

    Other axes have the length of the last run.
    """
    names = next(iter(runs.values()))
    return FrozenMap((name, tuple(_find_axis(runs, name, axis) for axis in range(len(names[name])))) for name in names)


def _find_axis(runs: Mapping[Size, Mapping[str, tuple[int, ...]]], name: str, axis: int) -> Axis:
    lengths = {size: shapes[name][axis] for size, shapes in runs.items()}
    found = [
        letter
        for letter in next(iter(runs)).values
        if len({size.values[letter] for size in runs}) > 1
        and all(size.values[letter] == length for size, length in lengths.items())
    ]
    return found[0] if found else list(lengths.values())[-1]


def _list_trials(sizes: Sizes, letter: str) -> list[tuple[Size, Size]]:
    """Return pairs: a size between listed ones, and the listed size to which it is padded along the letter."""
    listed = sorted({size.values[letter] for size in sizes.choices})
    last = len(sizes.choices) - 1
    chosen = [sizes.choices[place * last // (_CHECKED - 1)] for place in range(_CHECKED)]
    trials: dict[tuple[Size, Size], None] = {}
    for size in dict.fromkeys(chosen):
        value = size.values[letter]
        below = max((each for each in listed if each < value), default=0)
        for length in {below + 1, value - 1} - {0, value}:
            trials[Size(FrozenMap({**size.values, letter: length})), size] = None
    return list(trials)


def _compare(
    model: SizedModel,
    exact: Mapping[Size, Reference],
    trial: tuple[Size, Size],
    shapes: Mapping[str, tuple[Axis, ...]],
) -> str | None:
    """Return how the outputs for padded inputs differ from the exact ones, or None."""
    small, size = trial
    want = exact[small]
    wide = {name: model.sizes.shape(name, size) or value.shape for name, value in want.inputs.items()}
    got = model.compute(size, pad_inputs(want.inputs, wide, model.sizes.pad)).outputs
    cuts = {name: cut(value, shapes[name], small.values) for name, value in got.items()}
    tolerance = Tolerance(rtol=model.options.rtol, atol=model.options.atol)
    problem = want.compare(cuts, tolerance).problem
    return problem and f"{small.name} as {size.name}: {problem}"
