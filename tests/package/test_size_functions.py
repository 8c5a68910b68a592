"""The choice of a function for shapes that are drawn, and the axes that a model's outputs have in letters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import Size, sort_sizes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.padding import cut, pad_inputs
from tvmbuild.package.size_functions import MAIN, SizeFunction, SizeFunctions, name_library
from tvmbuild.preparing.sizes import find_axes

VALUES = st.integers(1, 40)
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6, unique=True)


def make_functions(pairs: list[tuple[int, int]], padded: tuple[str, ...]) -> SizeFunctions:
    shapes = {"x": ("B", "T", 3)}
    sizes = sort_sizes(shapes, [Size(FrozenMap({"B": b, "T": t})) for b, t in pairs])
    libraries = [*map(name_library, sizes[:-1]), MAIN]
    functions = tuple(
        SizeFunction(size.values, library, (), FrozenMap({"y": (size.values["T"], size.values["B"])}))
        for size, library in zip(sizes, libraries, strict=True)
    )
    return SizeFunctions(
        FrozenMap({"x": ("B", "T", 3)}), FrozenMap({"y": ("T", "B")}), functions, padded, FrozenMap({"x": 7.0})
    )


@given(PAIRS, st.tuples(VALUES, VALUES), st.sampled_from([(), ("B",), ("T",), ("B", "T")]))
def test_the_smallest_function_that_takes_the_inputs_is_chosen(
    pairs: list[tuple[int, int]], asked: tuple[int, int], padded: tuple[str, ...]
) -> None:
    functions = make_functions(pairs, padded)
    assert functions.find_fault() is None

    def takes(pair: tuple[int, int]) -> bool:
        return all(
            own == value or (letter in padded and value < own)
            for letter, own, value in zip("BT", pair, asked, strict=True)
        )

    fitting = [pair for pair in pairs if takes(pair)]
    shape = (*asked, 3)
    if not fitting:
        with pytest.raises(TvmbuildError, match=f"net takes no B={asked[0]} T={asked[1]}"):
            functions.plan({"x": shape}, "net")
        return
    calls = functions.plan({"x": shape}, "net")
    function, size = calls.parts[0].function, calls.size
    assert dict(size.values) == {"B": asked[0], "T": asked[1]}
    assert function.values["B"] * function.values["T"] == min(b * t for b, t in fitting)


@given(PAIRS, st.tuples(VALUES, VALUES))
def test_padded_inputs_keep_their_elements_and_cut_outputs_lose_what_was_added(
    pairs: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    functions = make_functions([*pairs, (41, 41)], ("B", "T"))
    array = np.random.default_rng(0).integers(0, 5, (*asked, 3))
    calls = functions.plan({"x": array.shape}, "net")
    function, size = calls.parts[0].function, calls.size
    shape = functions.shape("x", function)
    assert shape is not None
    wide = pad_inputs({"x": array}, {"x": shape}, functions.pad)["x"]
    assert wide.shape == shape
    np.testing.assert_array_equal(wide[: asked[0], : asked[1]], array)
    assert wide.sum() == array.sum() + 7 * (wide.size - array.size)
    made = wide.sum(axis=2).T
    np.testing.assert_array_equal(cut(made, functions.outputs["y"], size.values), array.sum(axis=2).T)


def test_mod_json_is_read_as_it_was_written() -> None:
    functions = make_functions([(1, 8), (2, 16)], ("T",))
    assert SizeFunctions.from_json(functions.to_json()) == functions


def test_axes_of_outputs_are_the_letters_that_they_follow() -> None:
    def run(b: int, t: int) -> tuple[Size, dict[str, tuple[int, ...]]]:
        return Size(FrozenMap({"B": b, "T": t})), {"rows": (b, t, 16), "pooled": (b, 16), "both": (b * t,)}

    found = find_axes(dict([run(1, 16), run(4, 16), run(4, 32)]))
    assert found == {"rows": ("B", "T", 16), "pooled": ("B", 16), "both": (128,)}
