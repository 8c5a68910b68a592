"""Function names that are too long for the runtime's kernels become shorter, and stay as many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import node
from vulkan_kernels import lavapipe

from tvmbuild.compiler.codegen.kernel_names import LONGEST, shorten_names
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import called_functions
from tvmbuild.compiler.pipeline import Lowered, lower

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
SHAPE = (2, 8)


def lower_chains(save_model: SaveModel, *lengths: int) -> Lowered:
    """Lower chains, each to its own function, and a sort beside them."""
    nodes, x = [], "x"
    for chain, length in enumerate(lengths):
        for step in range(length):
            nodes.append(node("Tanh", x, out=f"{chain}.{step}"))
            x = nodes[-1].output[0]
        nodes.append(node("CumSum", x, "axis", out=f"{chain}.sum"))
        x = nodes[-1].output[0]
    nodes.append(node("Identity", x))
    return lower(import_onnx(save_model(nodes, {"axis": np.array(1)}, SHAPE)), lavapipe())


def list_names(mod: object) -> list[str]:
    return [str(variable.name_hint) for variable in called_functions(mod)]


def test_names_that_begin_alike_stay_different(save_model: SaveModel) -> None:
    mod = lower_chains(save_model, 40, 41).mod
    before, after = list_names(mod), list_names(shorten_names(mod))
    assert sum(len(name) > LONGEST for name in before) == 2
    assert max(map(len, after)) == LONGEST
    assert len(set(after)) == len(set(before))
    assert [new for old, new in zip(before, after, strict=True) if len(old) <= LONGEST] == [
        old for old in before if len(old) <= LONGEST
    ]
    assert list_names(shorten_names(mod)) == after


def test_a_module_of_short_names_stays_as_it_is(save_model: SaveModel) -> None:
    mod = lower_chains(save_model, 3).mod
    assert shorten_names(mod).same_as(mod)


@pytest.mark.vulkan
def test_the_numbers_are_right(save_model: SaveModel) -> None:
    x = np.random.RandomState(0).uniform(-1, 1, SHAPE).astype(np.float32)
    want = x
    for length in (40, 41):
        for _ in range(length):
            want = np.tanh(want)
        want = np.cumsum(want, 1)
    got = build_here(lower_chains(save_model, 40, 41), lavapipe())({"x": x})["y"]
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
