"""The keys `frame` and `postprocess` of models.yaml: the frames that packages take, and the results that they make."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import BOX_FORMS, KINDS, WITH_BOXES, Postprocess, find_clash, list_results
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath

_OUTPUTS = ("output", "boxes", "classes", "prototypes", "priors")
"""The keys (`output:` …) that name outputs, in the order of a result."""


def check_frames(document: Document, path: KeyPath, own: dict[str, Any]) -> None:
    """Report frames that no camera delivers, and frames that are listed twice."""
    data, here = own.get("preprocess"), (*path, "preprocess", "frame")
    if not isinstance(data, dict) or "frame" not in data or not document.is_sound(here):
        return
    seen: list[Frame] = []
    for number, frame in enumerate(make_frames(data)):
        at = (*here, number) if isinstance(data["frame"], list) else here
        fault = frame.find_fault()
        if fault is not None:
            key, value = _find_culprit(frame)
            document.report((*at, key), f"{value} is not possible for {frame.encoding}", fault)
        elif any((each.shape, each.encoding) == (frame.shape, frame.encoding) for each in seen):
            document.report(at, f"{frame.encoding} {list(frame.shape)} is listed twice", "each size and encoding once")
        seen.append(frame)


def _find_culprit(frame: Frame) -> tuple[str, Any]:
    """Return the key whose value makes a frame impossible, and the value."""
    if replace(frame, stride=None, crop=None).find_fault() is not None:
        return "size", [frame.height, frame.width]
    if replace(frame, crop=None).find_fault() is not None:
        return "stride", frame.stride
    return "crop", list(astuple(frame.used))


def check_postprocess(document: Document, path: KeyPath, own: dict[str, Any]) -> None:
    """Report names of outputs that a form of boxes does not have, and forms without masks or keypoints."""
    data = own.get("postprocess")
    if not isinstance(data, dict) or not document.is_sound((*path, "postprocess")):
        return
    clash = find_clash(data)
    if clash is not None:
        document.report((*path, "postprocess"), clash, "one of them")
    for kind in WITH_BOXES:
        if kind in data:
            _check_boxes(document, (*path, "postprocess", kind), kind, data[kind])


def _check_boxes(document: Document, here: KeyPath, kind: str, fields: dict[str, Any]) -> None:
    """Report names of outputs that the form of a result with boxes does not have."""
    name = fields["form"]
    if name in GRID_FORMS:
        _check_grids(document, here, name, fields)
        return
    if BOX_FORMS[name].priors != "none":
        _check_priors(document, here, name, fields)
    for key in sorted({"outputs", *_list_unknown(name)} & fields.keys()):
        document.report_key((*here, key), f"the form {name} has no {_LACKS[key]}", f"no `{key}`")
    if kind == "boxes" and _check_apart(document, here, name, fields):
        return
    split, second = BOX_FORMS[name].split, "prototypes" if kind == "masks" else "boxes"
    if (split or kind == "masks") and ("output" in fields) != (second in fields):
        what = "with the boxes" if kind == "masks" else "with the scores"
        document.report_key(here, "one of two outputs is named", f"both `output`, {what}, and `{second}`, or none")
    elif not split and "boxes" in fields:
        what = f"the form {name} has boxes and scores in one output"
        document.report_key((*here, "boxes"), what, "only `output`")


def _check_apart(document: Document, here: KeyPath, name: str, fields: dict[str, Any]) -> bool:
    """Report an output with the classes that is missing or too much; return whether the form has such an output."""
    apart = BOX_FORMS[name].apart
    if apart and not {"output", "boxes", "classes"} <= fields.keys():
        document.report_key(here, "not all outputs are named", "all of `output`, `boxes` and `classes`")
    elif not apart and "classes" in fields:
        document.report_key((*here, "classes"), f"the form {name} has no output with the classes", "no `classes`")
    return apart


_LACKS = {
    "outputs": "grids",
    "anchors": "grids",
    "strides": "priors",
    "variances": "scaled priors",
    "priors": "priors",
}
"""Key → what a form lacks that does not take the key."""


def _list_unknown(name: str) -> set[str]:
    """Return the keys about priors that a form without grids does not take."""
    priors = BOX_FORMS[name].priors
    unknown = {"none": {"anchors", "strides", "priors", "variances"}, "offset": {"variances"}, "scaled": set[str]()}
    return unknown[priors]


def _check_priors(document: Document, here: KeyPath, name: str, fields: dict[str, Any]) -> None:
    """Report priors that are neither an output nor stated by anchors and strides."""
    anchors, strides = fields.get("anchors"), fields.get("strides")
    if ("priors" in fields) == (anchors is not None) or (anchors is None) != (strides is None):
        expected = "`priors`, the output with them, or both `anchors` and `strides`"
        document.report_key(here, f"the form {name} needs priors", expected)
    elif "priors" in fields and "boxes" not in fields:
        document.report_key(here, "not all outputs are named", "all of `output`, `boxes` and `priors`")
    elif anchors is not None and strides is not None and len(anchors) != len(strides):
        document.report((*here, "strides"), f"has {len(strides)} numbers", f"one for each of {len(anchors)} grids")
    _check_anchors(document, here, anchors)


def _check_anchors(document: Document, here: KeyPath, anchors: Any) -> None:
    for place, each in enumerate(anchors or ()):
        if len(each) % 2:
            document.report((*here, "anchors", place), f"has {len(each)} numbers", "width and height of each anchor")


def _check_grids(document: Document, here: KeyPath, name: str, fields: dict[str, Any]) -> None:
    """Report anchors that a form does not have or needs, and names of single outputs."""
    form, anchors = GRID_FORMS[name], fields.get("anchors")
    for key in {"output", "boxes", "classes", "prototypes"} & fields.keys():
        document.report_key((*here, key), f"the form {name} has grids", "`outputs`, with all of them")
    if form.with_anchors and anchors is None:
        document.report_key(here, f"the form {name} needs `anchors`", "width and height of each, a list for each grid")
    if not form.with_anchors and anchors is not None:
        document.report_key((*here, "anchors"), f"the form {name} has no anchors", "no `anchors`")
    for key in sorted({"strides", "variances", "priors"} & fields.keys()):
        document.report_key((*here, key), f"the form {name} has no {_LACKS[key]}", f"no `{key}`")
    _check_anchors(document, here, anchors)


def make_frames(preprocess: dict[str, Any]) -> tuple[Frame, ...]:
    """Return the frames of a checked map `preprocess`."""
    data = preprocess.get("frame", [])
    frames = data if isinstance(data, list) else [data]
    return tuple(map(_make_frame, frames))


def _make_frame(data: dict[str, Any]) -> Frame:
    height, width = map(int, data["size"])
    stride, crop = data.get("stride"), data.get("crop")
    return Frame(
        height,
        width,
        data["encoding"],
        data.get("interpolation", "antialias"),
        stride=None if stride is None else int(stride),
        crop=None if crop is None else Crop(*map(int, crop)),
    )


def make_postprocess(data: dict[str, Any]) -> tuple[Postprocess, ...]:
    """Return the results that a checked map `postprocess` asks for, in the order of `KINDS`."""
    return tuple(_make_result(make, each) for kind, make in KINDS.items() for each in list_results(data.get(kind, [])))


def _make_result(make: type[Postprocess], fields: dict[str, Any]) -> Postprocess:
    named = tuple(str(fields[key]) for key in _OUTPUTS if key in fields)
    given: dict[str, Any] = {key: value for key, value in fields.items() if key not in _OUTPUTS}
    numbers: dict[str, Any] = {key: float(given[key]) for key in ("score", "overlap") if key in given}
    if "anchors" in given:
        given["anchors"] = tuple(tuple(map(float, each)) for each in given["anchors"])
    for key in {"strides", "variances"} & given.keys():
        given[key] = tuple(map(float, given[key]))
    if "labels" in given:
        given["labels"] = tuple(map(str, given["labels"]))
    outputs = tuple(given.pop("outputs", named))
    given.update(numbers, outputs=outputs)
    return make(**given)
