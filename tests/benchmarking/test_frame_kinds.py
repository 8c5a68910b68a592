"""Every kind of result and every form of boxes is compared: right results pass the gate, and planted faults do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from frame_cells import HERE, SIZE
from frame_gates import Fields, change, check, refuse
from result_cases import CASES, FORMS, GRIDS, make_case

from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    KINDS,
    Boxes,
    kind_of,
)
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.benchmarking.frames import unknown
from tvmbuild.benchmarking.frames.agreement import DESCRIBERS
from tvmbuild.benchmarking.frames.references import REFERENCES, find_reference
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.devices.result_fields import pack_pixels, unpack_pixels
from tvmbuild.package.archive import write_package
from tvmbuild.package.runtime.session import Session

Distort = Callable[[Fields], object]


def move_point(found: Fields) -> None:
    """Move a point of the first box."""
    point = found[0]["points"][2]
    point["x"] += 1 if point["x"] < 40 else -1


def move_pixels(name: str) -> Callable[[Fields], None]:
    """Return a distortion that moves the pixels of a result by one, so that their number stays the same."""

    def distort(found: Fields) -> None:
        for each in found:
            each[name] = pack_pixels(np.roll(unpack_pixels(each[name]), 1, axis=1))

    return distort


BOX_FAULTS: dict[str, Distort] = {
    "is off by 1 pixels": change(0, "x", lambda x: x + 1),
    "must have the score": change(0, "score", lambda score: score * 1.01),
    "box 0, class": change(0, "index", lambda index: index + 1),
    "a box is missing": lambda found: found.pop(),
}
FAULTS: dict[str, dict[str, Distort]] = {
    "boxes": BOX_FAULTS,
    "masks": {
        **BOX_FAULTS,
        "overlap with the right one is 0.": move_pixels("mask"),
        "has no mask of": change(0, "mask", lambda _: None),
    },
    "keypoints": {**BOX_FAULTS, "point 2 of box 0 is off by 1 pixels": move_point},
    "classes": {
        "must have the score": change(1, "score", lambda score: score * 1.01),
        "is missing": lambda found: found.pop(0),
    },
    "text": {
        "the symbols are": change(0, "symbols", lambda symbols: symbols[1:]),
        "the score is": change(0, "score", lambda score: score + 0.01),
    },
    "vector": {
        "of the vector is": change(0, "values", lambda values: [1.0 + each for each in values]),
        "has 299 values": change(0, "values", lambda values: values[1:]),
    },
    "segmentation": {
        "pixels have a wrong class, the first at row": move_pixels("pixels"),
        "there is no map": change(0, "width", lambda width: width + 1),
    },
    "heatmaps": {
        "is off by 1 pixels": change(0, "y", lambda y: y + 1 if y < 40 else y - 1),
        "has the score": change(0, "score", lambda score: score * 1.01),
        "there are 4 points": lambda found: found.pop(),
    },
    "raw": {
        "out1 is off by 1": change(0, "values", lambda values: pack_pixels(unpack_pixels(values) + np.float32(1))),
        "out0 has the shape": change(1, "values", lambda values: pack_pixels(unpack_pixels(values)[:, :-1])),
        "the outputs are": lambda found: found.pop(),
    },
}
"""Kind of result → part of the message about a planted fault → the fault."""


@pytest.mark.sampled(5)
@pytest.mark.compiler
@pytest.mark.parametrize("case", CASES)
def test_results_are_compared_and_faults_found(tmp_path: Path, case: str) -> None:
    _, asked = CASES[case]
    frames = (Frame(50, 80, "bgr8"), Frame(50, 80, "mono8", crop=Crop(7, 9, 31, 60)))
    options = BuildOptions("net", preprocess=Preprocess(resize="letterbox"), frames=frames, postprocess=(asked,))
    write_package(tmp_path / "net.tar", build_package(make_case(case).SerializeToString(), HERE, options=options))
    with Session(tmp_path / "net.tar") as session:
        found = check(session)
        assert (found.notes, found.check.results > 0) == ((), True)
        for message, distort in FAULTS[kind_of(asked)].items():
            assert message in refuse(session, distort)


def test_no_kind_and_no_form_is_left_out() -> None:
    """A new kind or form needs a reference, the usual code, words for their agreement, and a case here."""
    assert {kind_of(asked) for _, asked in CASES.values()} == set(KINDS)
    assert set(FORMS) == set(BOX_FORMS)
    assert set(GRIDS) == set(GRID_FORMS)
    assert set(REFERENCES) == set(DESCRIBERS) == set(FAULTS) == set(KINDS)
    for _, asked in CASES.values():
        decoding = Decoding(asked, ("out",), *SIZE, np.array([0, 0, 1, 1, 96, 64]))
        assert find_reference(decoding) is not None, asked


def test_no_kind_lacks_the_usual_code() -> None:
    usual = pytest.importorskip("tvmbuild.benchmarking.frames.usual_results")
    assert set(usual.FINDERS) == set(KINDS)


@pytest.mark.parametrize("case", [case for case, (_, asked) in CASES.items() if isinstance(asked, Boxes)])
def test_outputs_without_a_candidate(case: str) -> None:
    """No box is a result like any other: neither the reference nor the usual code stumbles over it."""
    usual = pytest.importorskip("tvmbuild.benchmarking.frames.usual_results")
    _, asked = CASES[case]
    session = onnxruntime.InferenceSession(make_case(case).SerializeToString())
    inputs = {each.name: np.zeros(each.shape, np.float32) for each in session.get_inputs()}
    names = tuple(each.name for each in session.get_outputs())
    outputs = dict(zip(names, session.run(None, inputs), strict=True))
    decoding = Decoding(asked, names, *SIZE, np.array([0, 0, 1, 1, 96, 64]))
    reference = find_reference(decoding)
    assert reference is not None
    check = reference.check(decoding, outputs, Thresholds(1e9, None), [])
    assert (check.count, check.problem) == (0, None)
    assert usual.FINDERS[kind_of(asked)](decoding, outputs, 1e9, 0.5) == ()


def test_a_property_that_is_unknown_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Boxes("centernet")
    monkeypatch.setattr(unknown, "_KNOWN_PARTS", ("classes", "sizes"))
    monkeypatch.setattr(unknown, "PLACES", {})
    assert unknown.list_unknown_boxes(asked) == ["outputs of offsets", "boxes by map"]
    assert find_reference(Decoding(asked, ("out",), *SIZE, np.zeros(6))) is None
