"""The results that a package makes of its outputs: boxes, masks, keypoints, classes, maps of classes, text, vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT

Activation = Literal["none", "sigmoid", "softmax"]
Interpolation = Literal["bilinear", "nearest"]
Blank = Literal["first", "last"]
Resolution = Literal["frame", "input"]
_PLACES = (0, 4, 5)


@dataclass(frozen=True)
class BoxForm:
    """The form in which a family of detectors writes its boxes. A new family is a row of `BOX_FORMS`."""

    layout: Literal["rows", "columns"] = "rows"
    """``rows``: a box is a row, [1, boxes, values]. ``columns``: a box is a column, [1, values, boxes]."""
    corners: bool = False
    """True if a box is left, top, right, bottom; else it is centre x, centre y, width, height."""
    objectness: bool = False
    """True if the fifth value is a probability that multiplies those of the classes."""
    ready: bool = False
    """True if a box has its score and its class in place of a score for each class.

    If the scores and the boxes are two outputs, then the classes are a third one.
    """
    places: tuple[int, int, int] = _PLACES
    """The places of a ready box's first coordinate, score and class among its values in one output."""
    split: bool = False
    """True if the scores, which come first, and the boxes are two outputs."""
    activation: Activation = "none"
    """The function that makes probabilities of the scores."""
    background: Literal["none", "first", "last"] = "none"
    """The place of a score for no object. It counts in a softmax, but is not a class."""
    normalised: bool = False
    """True if coordinates are shares of the input's width and height; else they are its pixels."""
    strides: tuple[int, ...] = ()
    """The strides of the grids whose cells the boxes are relative to. Empty if coordinates are absolute."""
    suppress: bool = True
    """True if the outputs have overlapping boxes, so that non-maximum suppression is needed."""
    priors: Literal["none", "scaled", "offset"] = "none"
    """The way to place a box by its prior.

    ``scaled``: the centre moves by x and y times variance and size of the prior, and the size is the prior's times e to
    the power of width and height times variance. ``offset``: the centre moves by x and y, and width and height are the
    box's own.
    """
    swapped: bool = False
    """True if y comes before x, and height before width."""

    @property
    def begin(self) -> int:
        """The place of the first class's score, or of a ready score, among the values of a box."""
        return (0 if self.split else 4 + self.objectness) + (self.background == "first")

    @property
    def apart(self) -> bool:
        """Return whether scores, boxes and classes are three outputs."""
        return self.split and self.ready

    @property
    def own(self) -> int:
        """The number of values of a ready box in the output with its score."""
        return 1 if self.split else max(self.places[0] + 4, *(place + 1 for place in self.places[1:]))

    @property
    def extensible(self) -> bool:
        """True if values may follow the scores of a box: the coefficients of its mask, or its keypoints."""
        return not self.split and self.places == _PLACES

    @property
    def spare(self) -> int:
        """The number of scores that belong to no class."""
        return int(self.background != "none")


BOX_FORMS: dict[str, BoxForm] = {
    "yolov5": BoxForm(objectness=True),
    "yolov8": BoxForm(layout="columns"),
    "yolox": BoxForm(objectness=True, strides=(8, 16, 32)),
    "end2end": BoxForm(corners=True, ready=True, suppress=False),
    "separate": BoxForm(corners=True, ready=True, split=True, suppress=False, places=(0, 0, 0)),
    "ppyolo": BoxForm(corners=True, ready=True, suppress=False, places=(2, 1, 0)),
    "yolov7_nms": BoxForm(corners=True, ready=True, suppress=False, places=(1, 6, 5)),
    "rtdetr": BoxForm(normalised=True, suppress=False),
    "detr": BoxForm(split=True, activation="softmax", background="last", normalised=True, suppress=False),
    "dfine": BoxForm(split=True, activation="sigmoid", normalised=True, suppress=False),
    "ssd": BoxForm(split=True, activation="softmax", background="first", normalised=True, priors="scaled"),
    "ssd_softmax": BoxForm(split=True, background="first", normalised=True, priors="scaled"),
    "ssd_tf": BoxForm(
        split=True, activation="sigmoid", background="first", normalised=True, priors="scaled", swapped=True
    ),
    "ssd_decoded": BoxForm(split=True, background="first", normalised=True, corners=True),
    "blazeface": BoxForm(split=True, activation="sigmoid", priors="offset"),
}
"""Name of a form in models.yaml → the description of its outputs."""


VARIANCES = (0.1, 0.2)
"""The factors of places and of sizes that nearly all SSDs are trained with."""


@dataclass(frozen=True)
class Boxes:
    """Objects with a box around each: `postprocess: {boxes: …}`."""

    form: str
    """A key of `BOX_FORMS` or of `GRID_FORMS`."""
    outputs: tuple[str, ...] = ()
    """The names of the outputs that hold the boxes. Empty means the model's outputs in their order."""
    score: float = 0.25
    """The score that a box must exceed. `run_frame` may replace it."""
    overlap: float = 0.45
    """The largest part of their union that two boxes may share; else the one with the lower score is dropped."""
    most: int = 300
    """The largest number of boxes in a result."""
    agnostic: bool = False
    """True if boxes of different classes suppress each other."""
    anchors: tuple[tuple[float, ...], ...] = ()
    """For each grid width and height of its anchors, one after the other, in pixels. Only some forms have anchors."""
    strides: tuple[float, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    """The distance of the cells of each grid in pixels, of forms with priors that are not an output."""
    variances: tuple[float, ...] = field(default=VARIANCES, metadata=OMIT_WHEN_DEFAULT)
    """The factors of places and of sizes, of forms with scaled priors."""
    labels: tuple[str, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    """The names of the classes. Empty means those of the model."""


@dataclass(frozen=True)
class Classes:
    """The likeliest classes: `postprocess: {classes: …}`."""

    outputs: tuple[str, ...] = ()
    """The name of the output with one score for each class. Empty means the model's first output."""
    activation: Activation = "softmax"
    score: float = 0.0
    """The probability that a class must exceed. `run_frame` may replace it."""
    most: int = 5
    """The largest number of classes in a result."""
    labels: tuple[str, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    """The names of the classes. Empty means those of the model."""


@dataclass(frozen=True)
class Masks(Boxes):
    """Objects with a box and a mask each: `postprocess: {masks: …}`.

    The first output has the coefficients of each object's mask after the scores, the second output the prototypes
    [1, coefficients, height, width]. A mask is the sum of the prototypes times the coefficients, where it is positive.
    """

    most: int = 100
    resolution: Resolution = field(default="frame", metadata=OMIT_WHEN_DEFAULT)
    """The pixels of the masks: those of the frame, or of the network's input. Boxes are in the frame's pixels."""


@dataclass(frozen=True)
class Keypoints(Boxes):
    """Objects with a box and named points each: `postprocess: {keypoints: …}`. The points are after the scores."""

    points: int = 17
    """The number of points of an object."""
    values: int = 3
    """The number of values of a point: 2 for x and y, 3 for x, y and score."""


@dataclass(frozen=True)
class Heatmaps:
    """One point for each heatmap: `postprocess: {heatmaps: …}`, for a picture of a single person or hand."""

    outputs: tuple[str, ...] = ()
    """The name of the output [1, points, height, width]. Empty means the model's first output."""
    labels: tuple[str, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    """The names of the points. Empty means those of the model."""


@dataclass(frozen=True)
class Segmentation:
    """A class for each pixel: `postprocess: {segmentation: …}`."""

    outputs: tuple[str, ...] = ()
    """The name of the output with scores [1, classes, height, width], or with classes. Empty means the first output."""
    interpolation: Interpolation = "bilinear"
    """The way to find scores between the output's pixels."""
    activation: Activation = "none"
    """The function that makes a probability of an output with a single score for each pixel: none or sigmoid."""
    score: float = 0.5
    """The probability that a pixel of class 1 must exceed if an output has one score for each pixel."""
    resolution: Resolution = field(default="frame", metadata=OMIT_WHEN_DEFAULT)
    """The pixels of the map: those of the frame, or of the network's input."""
    labels: tuple[str, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    """The names of the classes. Empty means those of the model."""


@dataclass(frozen=True)
class Text:
    """A line of text: `postprocess: {text: …}`, decoded greedily from a network trained with CTC.

    `labels` of the model has the characters.
    """

    outputs: tuple[str, ...] = ()
    """The name of the output [1, steps, symbols] or [steps, 1, symbols]. Empty means the model's first output."""
    activation: Activation = "none"
    """The function that makes probabilities of the scores: none or softmax."""
    blank: Blank = "first"
    """The symbol that stands for no character."""


@dataclass(frozen=True)
class Vector:
    """A vector that describes the picture: `postprocess: {vector: …}`."""

    outputs: tuple[str, ...] = ()
    """The name of the output. Empty means the model's first output."""
    normalise: bool = True
    """True if the vector is divided by its Euclidean length."""


@dataclass(frozen=True)
class Raw:
    """Outputs as they are: `postprocess: {raw: …}`, beside other results."""

    outputs: tuple[str, ...]
    """The names of the outputs."""


Postprocess = Boxes | Classes | Heatmaps | Segmentation | Text | Vector | Raw
KINDS: dict[str, type[Postprocess]] = {
    "boxes": Boxes,
    "masks": Masks,
    "keypoints": Keypoints,
    "classes": Classes,
    "segmentation": Segmentation,
    "text": Text,
    "vector": Vector,
    "heatmaps": Heatmaps,
    "raw": Raw,
}
"""Name of a kind of result, as models.yaml and mod.json have it → its class."""
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
INTERPOLATIONS: tuple[Interpolation, ...] = get_args(Interpolation)
BLANKS: tuple[Blank, ...] = get_args(Blank)
RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
MAX_RESULTS = 1000
"""The largest ``most``."""
MAX_MASKS = 255
"""The largest ``most`` of masks, because a byte holds the number of an object."""


REPEATED = ("classes", "segmentation", "heatmaps")
"""The kinds that a package may have several times, each with its own output."""
WITH_BOXES = tuple(name for name, each in KINDS.items() if issubclass(each, Boxes))
"""The kinds of results with boxes. A package makes one of them at most."""


def is_in_input(asked: Postprocess) -> bool:
    """Return whether a result is a map in the pixels of the network's input."""
    return isinstance(asked, Masks | Segmentation) and asked.resolution == "input"


def kind_of(value: Postprocess) -> str:
    """Return the name of the kind of a result."""
    return next(name for name, each in KINDS.items() if type(value) is each)


def name_results(asked: Sequence[Postprocess]) -> tuple[str, ...]:
    """Return the name of each result: its kind, and for a further one of the kind its number, `segmentation 2`."""
    kinds = [kind_of(each) for each in asked]
    counts = [kinds[:place].count(kind) for place, kind in enumerate(kinds)]
    return tuple(f"{kind} {count + 1}" if count else kind for kind, count in zip(kinds, counts, strict=True))


def find_clash(kinds: Collection[str]) -> str | None:
    """Return why no package makes results of these kinds together, or None if one can."""
    found = [name for name in WITH_BOXES if name in kinds]
    return f"{' and '.join(found)} both have boxes" if len(found) > 1 else None


def postprocess_to_json(value: tuple[Postprocess, ...]) -> dict[str, Any]:
    """Return results as a JSON value, a map from each kind to its result, or to the list of its results.

    ``postprocess_from_json`` is the inverse.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for each in value:
        found.setdefault(kind_of(each), []).append(_write_fields(each))
    return {kind: results[0] if len(results) == 1 else results for kind, results in found.items()}


def _write_fields(value: Postprocess) -> dict[str, Any]:
    left_out = {each.name for each in fields(value) if each.metadata and getattr(value, each.name) == each.default}
    return {name: each for name, each in asdict(value).items() if name not in left_out}


def postprocess_from_json(value: Mapping[str, Any]) -> tuple[Postprocess, ...]:
    """Parse the output of ``postprocess_to_json``. Raises TypeError or ValueError if it is malformed."""
    unknown = sorted(value.keys() - KINDS.keys())
    if unknown:
        raise ValueError(f"postprocess has the unknown kind {unknown[0]!r}")
    clash = find_clash(value)
    if clash is not None:
        raise ValueError(f"postprocess is impossible: {clash}")
    return tuple(
        make(**{key: _freeze(each) for key, each in fields.items()})
        for kind, make in KINDS.items()
        for fields in list_results(value.get(kind, []))
    )


def list_results(value: Any) -> list[Any]:
    """Return the results of a kind, one or a list of them, as a list."""
    return value if isinstance(value, list) else [value]


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value
