"""Candidates and their selection, for drawn outputs of every form: compared with plain NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm
from detector_nets import decode, draw_outputs, select
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws

from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes
from tvmbuild.compiler.kernels.results.candidates import Candidates, write_candidates
from tvmbuild.compiler.kernels.results.priors import Priors
from tvmbuild.compiler.kernels.results.select import Selection, write_selection

pytestmark = pytest.mark.compiler
SIZE = (480, 640)
GRID = sum((480 // stride) * (640 // stride) for stride in (8, 16, 32))
CPU = {"kind": "llvm", "num-cores": 2}
Run = Callable[..., list[np.ndarray]]


STRIDES, ANCHORS = (106.7, 160.0), ((30.0, 40.0, 61.0, 22.0), (110.0, 80.0))
"""Grids of 5 by 6 cells with two anchors, and of 3 by 4 cells with one."""


def draw_priors() -> np.ndarray:
    """Return centre, width and height of the priors of STRIDES and ANCHORS, in pixels."""
    first = [
        ((x + 0.5) * 106.7, (y + 0.5) * 106.7, *s) for y in range(5) for x in range(6) for s in ((30, 40), (61, 22))
    ]
    second = [((x + 0.5) * 160, (y + 0.5) * 160, 110, 80) for y in range(3) for x in range(4)]
    return np.array(first + second, float)


def build(asked: Boxes, outputs: list[np.ndarray], classes: int) -> Run:
    form = BOX_FORMS[asked.form]
    count = outputs[0].shape[2 if form.layout == "columns" else 1]
    shapes = tuple((each.shape, "float32") for each in outputs)
    priors = Priors(asked.strides, asked.anchors) if asked.strides else None
    found = (*SIZE, 0, priors, asked.variances)
    candidates = Candidates(form, count, 1 if form.ready else classes, shapes, *found)
    selection = Selection(count, asked.most, form.suppress, asked.agnostic)
    functions = {
        "candidates": write_candidates(candidates, on_gpu=False),
        "selection": write_selection(selection, on_gpu=False),
    }
    named = {name: each.with_attr("global_symbol", name) for name, each in functions.items()}
    library = tvm.compile(tvm.ir.IRModule(named), target=tvm.target.Target(CPU))
    cells = candidates.list_cells()

    def run(geometry: tuple[float, ...]) -> list[np.ndarray]:
        thresholds = tvm.runtime.tensor(np.array([asked.score, asked.overlap], np.float32))
        given = [*outputs, *([] if cells is None else [cells])]
        between = [((count, 4), "float32"), ((count,), "float32"), ((count,), "int32")]
        made = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in between]
        library["candidates"](*map(tvm.runtime.tensor, given), thresholds, *made)
        found = [tvm.runtime.tensor(np.full(shape, 7, dtype)) for shape, dtype in selection.list_outputs()]
        library["selection"](*made, thresholds, tvm.runtime.tensor(np.array(geometry, np.float32)), *found)
        return [np.asarray(each.numpy()) for each in found]

    return run


@settings(max_examples=draws(40), deadline=None)
@given(
    st.sampled_from(sorted(BOX_FORMS)),
    st.integers(1, 300),
    st.integers(1, 12),
    st.floats(0.05, 0.9),
    st.floats(0.1, 0.9),
    st.integers(1, 60),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_results_are_those_of_plain_numpy(  # noqa: PLR0917 - each is drawn
    form: str, count: int, classes: int, score: float, overlap: float, most: int, agnostic: bool, seed: int
) -> None:
    count = GRID if BOX_FORMS[form].strides else count
    generator, priors = np.random.default_rng(seed), None
    asked = Boxes(form, (), score, overlap, most, agnostic)
    if BOX_FORMS[form].priors != "none" and agnostic:  # stated
        variances = (float(generator.uniform(0.05, 0.2)), float(generator.uniform(0.05, 0.3)))
        asked = replace(asked, anchors=ANCHORS, strides=STRIDES, variances=variances)
        priors = draw_priors() / ((640, 480, 640, 480) if BOX_FORMS[form].normalised else 1)
        count = len(priors)
    outputs = draw_outputs(form, count, classes, generator)
    if BOX_FORMS[form].priors != "none" and not agnostic:  # an output
        priors = generator.uniform(0.1, 0.9, (count, 4)).astype(np.float32)
        outputs.append(priors)
    rows, *_ = build(asked, outputs, classes)((0, 0, 1, 1, 640, 480))
    found, boxes, scores, numbers = int(rows[0, 0]), rows[1:, :4], rows[1:, 4], rows[1:, 5]
    want = select(asked, decode(BOX_FORMS[form], outputs, SIZE, priors, asked.variances))
    edges = [0.0, 0.0, 640.0, 480.0]
    got = [(float(s), int(c)) for s, c in zip(scores[:found], numbers[:found], strict=True)]
    assert [c for _, c in got] == [c for _, c, _ in want]
    np.testing.assert_allclose([s for s, _ in got], [s for s, _, _ in want], rtol=1e-5, atol=1e-6)
    clipped = np.array([np.clip(box, 0, [edges[2], edges[3]] * 2) for _, _, box in want]).reshape(-1, 4)
    np.testing.assert_allclose(boxes[:found], clipped, rtol=1e-5, atol=1e-3)
    assert not rows[1 + found :].any()


def test_boxes_return_to_the_frame() -> None:
    # A frame of 200 by 100 lies at (0, 160) of a square input with 640 pixels: a pixel of the frame is 3.2 of it.
    outputs = [np.array([[[320, 320, 64, 32, 0.9]]], np.float32).transpose(0, 2, 1)]
    rows, *_ = build(Boxes("yolov8"), outputs, 1)((0, 160, 1 / 3.2, 1 / 3.2, 200, 100))
    assert rows[0, 0] == 1
    np.testing.assert_allclose(rows[1], [90, 45, 110, 55, 0.9, 0], rtol=1e-6)


def test_equal_scores_keep_their_order_and_nan_is_never_a_result() -> None:
    rows = np.zeros((1, 40, 6), np.float32)
    rows[0, :, :4] = [[10 * i, 0, 10 * i + 5, 5] for i in range(40)]
    rows[0, :, 4], rows[0, :, 5] = 0.5, np.arange(40)
    rows[0, 7, 4] = np.nan
    results, *_ = build(Boxes("end2end"), [rows], 40)((0, 0, 1, 1, 640, 480))
    assert results[1 : 1 + int(results[0, 0]), 5].tolist() == [i for i in range(40) if i != 7]
