"""Packages that make several results of one network, and networks with more inputs than the picture."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from detector_nets import add_factor, make_detector
from detector_tails import detect, yolov7
from frame_packages import DEVICES, FRAMES, RULES, SIZE, build, draw_frame

from tvmbuild.base.postprocess_specs import Boxes, Classes, Masks, Postprocess, Raw, Segmentation, Vector
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.results import Results
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler
SHAPES = [[1, 12, 80], [1, 6, 16, 24], [1, 5, 16, 24], [1, 20], [1, 32]]
ASKED: tuple[Postprocess, ...] = (
    Masks("yolov8", ("out0", "out1"), score=0.6, overlap=0.3, most=40),
    Classes(("out3",), most=3, labels=("first", "second")),
    Segmentation(("out2",), labels=("ground", "sky")),
    Vector(("out4",)),
)
FACTOR = np.full(1, 0.5, np.float32)
WITH_FACTOR = Preprocess(input="picture", resize="letterbox")


def run(session: Session, **given: float) -> Results:
    found = session.run_frame(draw_frame(FRAMES[0]), "bgr8", score=given.get("score"), overlap=given.get("overlap"))
    assert isinstance(found, Results)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("place", range(len(ASKED)))
def test_several_results_are_those_of_packages_with_one(tmp_path: Path, place: int, kind: str) -> None:
    model = make_detector(SHAPES, SIZE, spread=20)
    with build(tmp_path, model, None, kind, postprocess=ASKED, labels=("cat", "dog")) as session:
        found, picture = run(session), session.run_picture(draw_frame(FRAMES[0])[:, :, ::-1])
    assert list(found.by_kind) == ["masks", "classes", "segmentation", "vector"]
    assert {each.label for each in found.boxes} <= {"cat", "dog", None}
    assert {each.label for each in found.classes} <= {"first", "second", None}
    assert found.segmentation is not None
    assert found.segmentation.labels == ("ground", "sky")
    assert (found.text, found.points) == (None, ())
    assert copy.copy(found) == found == tuple(each for kind in found.by_kind.values() for each in kind)
    assert [len(each) for each in picture.by_kind.values()] == [len(each) for each in found.by_kind.values()]
    got = [*found.by_kind.values()][place]
    with build(tmp_path, model, ASKED[place], kind, labels=("cat", "dog")) as alone:
        want = run(alone)
    assert got
    assert json.dumps([each.as_dict() for each in got]) == json.dumps(*want.as_dict().values())


def test_a_kind_may_have_several_results(tmp_path: Path) -> None:
    model = make_detector(SHAPES, SIZE, spread=20)
    asked: tuple[Postprocess, ...] = (
        Classes(("out3",), most=3, labels=("first", "second")),
        Classes(("out4",), most=2, score=1.0),
        Segmentation(("out2",), labels=("ground", "sky")),
        Segmentation(("out1",), "nearest"),
    )
    with build(tmp_path, model, None, postprocess=asked, labels=("cat", "dog")) as session:
        found = run(session)
        lower = run(session, score=0.5)
    assert list(found.by_kind) == ["classes", "classes 2", "segmentation", "segmentation 2"]
    assert [each.labels for each in found.segmentations] == [("ground", "sky"), ("cat", "dog")]
    assert found.segmentation is found.segmentations[0]
    for name, each in [*zip(found.by_kind, asked, strict=True)][1::2]:  # the second of each kind
        with build(tmp_path, model, each, labels=("cat", "dog")) as alone:
            want = run(alone)
        assert json.dumps(found.as_dict()[name]) == json.dumps(*want.as_dict().values())
    assert len(lower.by_kind["classes"]) < len(found.by_kind["classes"])  # the first that has the threshold


def test_thresholds_are_those_of_the_first_result_that_has_them(tmp_path: Path) -> None:
    model = make_detector(SHAPES, SIZE, spread=20)
    with build(tmp_path, model, None, postprocess=ASKED[1:]) as session:
        assert len(run(session).classes) == 3
        assert run(session, score=1.0).classes == ()
        assert run(session, score=1.0).segmentation is not None
        with pytest.raises(TvmbuildError, match="`classes` and `segmentation` and `vector` has no threshold `overlap`"):
            run(session, overlap=0.5)


@pytest.mark.parametrize("kind", DEVICES)
def test_other_inputs_are_given_by_name(tmp_path: Path, kind: str) -> None:
    asked, data = Boxes("yolov8", score=0.1), draw_frame(FRAMES[0])
    model = add_factor(make_detector([[1, 7, 200]], SIZE))
    with build(tmp_path, model, asked, kind, preprocess=WITH_FACTOR) as session:
        picture = session.prepare_frame(data, "bgr8")
        with build(tmp_path, make_detector([[1, 7, 200]], SIZE), asked, kind, preprocess=RULES) as plain:
            (values,) = plain.run({"picture": picture}).values()
        for factor in (FACTOR, 2 * FACTOR):
            outputs = session.run({"picture": picture, "factor": factor})
            np.testing.assert_allclose(outputs["out0"], values * factor, rtol=1e-5)
            got = session.run_frame(data, "bgr8", inputs={"factor": factor})
            assert len(got) == len(session.make_results(outputs)) > 0
            assert len(session.run_picture(data[:, :, ::-1], inputs={"factor": factor})) == len(got)


def test_other_inputs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = add_factor(make_detector([[1, 5]], SIZE))
    with build(tmp_path, model, None, preprocess=WITH_FACTOR) as session:
        data = draw_frame(FRAMES[0])
        found = session.run_frame(data, "bgr8", inputs={"factor": FACTOR})
        assert isinstance(found, dict)
        assert list(found) == ["out0"]
        for inputs, message in (
            (None, "net needs the inputs factor beside the picture"),
            ({"factor": np.zeros(2, np.float32)}, r"the input factor of net is float32 \[1\], got float32 \[2\]"),
            ({"scale": FACTOR}, "net has no input scale; its inputs are factor"),
        ):
            with pytest.raises(TvmbuildError, match=message):
                session.run_frame(data, "bgr8", inputs=inputs)
    with pytest.raises(TvmbuildError, match="does not say which of them is a picture"):
        build(tmp_path, model, None)


@pytest.mark.parametrize("kind", DEVICES)
def test_outputs_beside_results_and_maps_of_the_input(tmp_path: Path, kind: str) -> None:
    asked = (
        Masks("yolov8", ("out0", "out1"), score=0.6, overlap=0.3, most=40, resolution="input"),
        Segmentation(("out2",), resolution="input"),
        Raw(("out3", "out0")),
    )
    with build(tmp_path, make_detector(SHAPES, SIZE, spread=20), None, kind, postprocess=asked) as session:
        found, picture = run(session), session.run_picture(draw_frame(FRAMES[0])[:, :, ::-1])
        outputs = session.run({"picture": session.prepare_frame(draw_frame(FRAMES[0]), "bgr8")})
        alone = session.make_results(outputs)
    assert list(found.outputs) == ["out3", "out0"]
    for name, values in found.outputs.items():
        assert values.dtype == outputs[name].dtype
        np.testing.assert_allclose(values, outputs[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(alone.outputs[name], outputs[name])
    assert found.as_dict()["raw"][0] == {"name": "out3", "dtype": "float32", "shape": [1, 20]}
    for results in (found, picture, alone):
        assert results.segmentation is not None
        assert results.segmentation.classes.shape == SIZE
        masks = [each.mask for each in results.boxes]
        assert masks
        assert {each.shape for each in masks if each is not None} == {SIZE}
    assert found.segmentation is not None
    assert alone.segmentation is not None
    assert np.mean(found.segmentation.classes == alone.segmentation.classes) > 0.999
    pairs = list(zip(found.boxes, alone.boxes, strict=True))
    assert any(one.mask is not None and one.mask.any() for one, _ in pairs)
    for one, other in pairs:  # the boxes of `alone` are in the input's pixels, and the masks of both are
        assert one.mask is not None
        assert other.mask is not None
        assert np.mean(one.mask == other.mask) > 0.999


def test_raw_names_an_output_of_fixed_length(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError, match="net has no output out9; its outputs are out0"):
        build(tmp_path, make_detector(SHAPES, SIZE), Raw(("out9",)))
    with pytest.raises(TvmbuildError, match="the result `raw` cannot be made from end0"):
        build(tmp_path, detect(yolov7(), SIZE), Raw(("end0",)))
