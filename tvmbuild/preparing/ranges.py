"""The check that a model computes a batch in parts: its rows are independent, and joined parts give the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import Axis, Range, Size, Sizes
from tvmbuild.base.specs import Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.padding import take_rows
from tvmbuild.package.parts import split
from tvmbuild.preparing.reference import Reference
from tvmbuild.preparing.rows.axis import Dependent
from tvmbuild.preparing.rows.proof import Proven, compare_all, prove_rows
from tvmbuild.preparing.sizes import SizedModel, find_axes, list_shapes


def check_range(
    model: SizedModel, whole: Range, graphs: Mapping[Size, bytes], references: Mapping[Size, Reference]
) -> None:
    """Raise TvmbuildError, which names the node, unless the model computes each row of a batch by itself.

    ``graphs`` are the simplified models of the sizes with functions and of the trials, ``references`` the original's
    outputs for them. The proof is that of `prove_graphs`. For a batch of 1 the original
    shows the same: for each trial it gives the joined outputs of its parts.
    """
    shapes = find_axes(list_shapes(references))
    prove_graphs(model.name, model.sizes, graphs, shapes)
    report_progress(f"comparing parts along {whole.letter} with the whole")
    for size in model.sizes.trials:
        problem = _compare_parts(model, size, references[size], shapes, whole.letter)
        if problem is not None:
            raise _refuse(model.name, model.sizes, f"parts of {size.name} give other results than the whole: {problem}")


def prove_graphs(name: str, sizes: Sizes, graphs: Mapping[Size, bytes], shapes: Mapping[str, Sequence[Axis]]) -> None:
    """Raise TvmbuildError, which names the node, unless the graphs of all batches from 2 on compute each row by itself.

    All of them must compute the same of a row. ``shapes`` are the outputs' in letters, ``name`` is the model's.
    """
    whole = sizes.range
    if whole is None:
        raise ValueError(f"{name} has no range")
    report_progress(f"proving that rows along {whole.letter} are independent")
    try:
        for group in _group(whole, graphs):
            proven = [_prove(sizes, whole, size, graphs[size]) for size in group]
            compare_all(proven)
            _check_outputs(whole, proven[0], shapes)
    except Dependent as reason:
        raise _refuse(name, sizes, f"rows may influence each other in {reason}") from None


def _refuse(name: str, sizes: Sizes, problem: str) -> TvmbuildError:
    letter = sizes.range.letter if sizes.range else ""
    built = sorted({each.values[letter] for each in sizes.choices})
    return TvmbuildError(
        f"{name}: {letter} cannot be a range: {problem}",
        f"list the batches in models.yaml: `sizes: {{{letter}: {built}}}`",
    )


def _group(whole: Range, graphs: Mapping[Size, bytes]) -> list[list[Size]]:
    """Return the sizes of more than one row, together those whose other letters are equal."""
    groups: dict[FrozenMap[str, int], list[Size]] = {}
    for size in graphs:
        if size.values[whole.letter] > 1:
            others = FrozenMap((key, value) for key, value in size.values.items() if key != whole.letter)
            groups.setdefault(others, []).append(size)
    return list(groups.values())


def _prove(sizes: Sizes, whole: Range, size: Size, graph: bytes) -> Proven:
    axes = {name: shape.index(whole.letter) for name, shape in sizes.inputs.items() if whole.letter in shape}
    return prove_rows(onnx.load_model_from_string(graph), axes, size.values[whole.letter], size.name)


def _check_outputs(whole: Range, proven: Proven, shapes: Mapping[str, Sequence[Axis]]) -> None:
    """Raise Dependent if the lengths of the outputs show the batch on other axes than the proof."""
    for name, place in proven.outputs.items():
        found = [axis for axis, letter in enumerate(shapes[name]) if letter == whole.letter]
        if found != [place.axis]:
            raise Dependent(f"the output {name}, whose shape is {list(shapes[name])}")


def _compare_parts(
    model: SizedModel, size: Size, want: Reference, shapes: Mapping[str, Sequence[Axis]], letter: str
) -> str | None:
    """Return how the original's joined outputs for parts differ from those for the whole, or None."""
    rows = size.values[letter]
    built = sorted({each.values[letter] for each in model.sizes.choices})
    made, start = list[Mapping[str, np.ndarray]](), 0
    for length in split(rows, tuple((each, each + 1) for each in built if each <= rows)):
        count = min(length, rows - start)
        feed = {
            name: np.ascontiguousarray(take_rows(value, model.sizes.inputs.get(name, ()), letter, start, count))
            for name, value in want.inputs.items()
        }
        made.append(model.compute(Size(FrozenMap({**size.values, letter: count})), feed).outputs)
        start += count
    joined = {name: np.concatenate([each[name] for each in made], shapes[name].index(letter)) for name in want.outputs}
    tolerance = Tolerance(rtol=model.options.rtol, atol=model.options.atol)
    return want.compare(joined, tolerance).problem
