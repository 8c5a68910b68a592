"""Reasons why nodes cannot be built: one error reports all of these nodes, each with a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto

from tvmbuild.errors import TvmbuildError

ONNX = ("", "ai.onnx", "ai.onnx.preview")
"""The domains of ONNX's own operators."""
OWN = "tvmbuild"
"""The domain of our own operators, which only expansions write."""
MAX_TOLD = 10
_MAX_NODES = 3
"""The largest number of nodes that one line of an error names."""
_REPLACE = "replace what the model does with other operators"
_LENGTH = "and a package has fixed shapes"
_COUNTED = "say how often by a constant, or export one step and repeat it in the program"
_DRAW = "draw the numbers in the program and feed them as an input, or export the model without it"
_TEXTS = "export the model without its text processing, or with numbers in the place of texts"
_OPTIMISED = "save it at ORT_ENABLE_EXTENDED, or take the model as it was before"
_PRIVATE = "it is one of ONNX Runtime's private layouts: the model was saved at its highest optimisation level"


@dataclass(frozen=True)
class Why:
    """A reason why a node cannot be built, and the remedy."""

    reason: str
    remedy: str


_RANDOM = Why("its numbers are drawn at random, and a package computes the same of the same inputs", _DRAW)
OF_TEXTS = Why("it works on texts", _TEXTS)
LABELS_OF_TEXTS = Why(
    "its labels are texts",
    "export it with labels that are numbers, or with its scores alone: skl2onnx's "
    "helpers.onnx_helper.select_model_inputs_outputs(model, 'probabilities')",
)
_OF_MAPS = Why(
    "it works on dictionaries, and a package takes and gives tensors",
    "export the model with a tensor of numbers in the place of each dictionary",
)
_SEQUENCE = Why(
    f"which elements its sequence has depends on the data, {_LENGTH}",
    "export it with numbers and positions that are constants, or with tensors in the place of sequences",
)
_REPEATED = Why(f"how often its body runs depends on the data, {_LENGTH}", _COUNTED)
_REASONS: Mapping[str, Why] = {
    "Loop": _REPEATED,
    "Scan": _REPEATED,
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), _RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("ConcatFromSequence", "SequenceAt"), _SEQUENCE),
    **dict.fromkeys(("SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap"), _SEQUENCE),
    "SplitToSequence": _SEQUENCE,
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), OF_TEXTS),
    "TfIdfVectorizer": OF_TEXTS,
}
_LAYOUTS = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})
_LAYOUT_PREFIX = "Nhwc"
_OF_MACHINE_LEARNING: Mapping[str, Why] = {
    "CastMap": _OF_MAPS,
    "CategoryMapper": OF_TEXTS,
    "DictVectorizer": _OF_MAPS,
}
_OTHER_DOMAINS: Mapping[str, Why] = {
    "ai.onnx.preview.training": Why("it is of training", "export the model for inference"),
    "ai.onnx.training": Why("it is of training", "export the model for inference"),
    "com.microsoft.extensions": OF_TEXTS,
    "ai.onnx.contrib": OF_TEXTS,
}


class NodeError(TvmbuildError):
    """The error of one node that cannot be built."""

    def __init__(self, node: onnx.NodeProto, why: Why, *, by_tvm: bool = False) -> None:
        """Create the error; ``by_tvm`` means that the reason is a message from TVM."""
        self.node, self.why, self.by_tvm = node, why, by_tvm
        super().__init__(_tell([self]), why.remedy)


def refuse(node: onnx.NodeProto, reason: str, remedy: str) -> NodeError:
    """Return the error of a node with this reason and remedy, for the caller to raise."""
    return NodeError(node, Why(reason, remedy))


def find_reason(node: onnx.NodeProto, known: frozenset[str]) -> Why | None:
    """Return the reason why the node cannot be built with any input, or None if there is none.

    ``known`` are the names of ONNX's operators that the importer converts.
    """
    if node.domain in _LAYOUTS or (node.domain not in ONNX and node.op_type.startswith(_LAYOUT_PREFIX)):
        return Why(_PRIVATE, _OPTIMISED)
    if node.domain in _OTHER_DOMAINS:
        return _OTHER_DOMAINS[node.domain]
    if node.domain == "ai.onnx.ml" and node.op_type in _OF_MACHINE_LEARNING:
        return _OF_MACHINE_LEARNING[node.op_type]
    if node.domain not in (*ONNX, OWN):
        return Why("there is no code for it", _REPLACE)
    if node.op_type == "Constant":
        texts = any(each.t.data_type == TensorProto.STRING for each in node.attribute)
        return Why("its values are texts", _TEXTS) if texts else None
    return _REASONS.get(node.op_type) or (None if node.op_type in known else Why("there is no code for it", _REPLACE))


def combine(errors: Sequence[NodeError]) -> TvmbuildError:
    """Return one error that lists all errors in at most ten lines; nodes with one operator and reason share a line."""
    groups: dict[tuple[str, str, str], list[NodeError]] = {}
    for error in errors:
        groups.setdefault((error.node.domain, error.node.op_type, error.why.reason), []).append(error)
    if len(groups) == 1:
        return TvmbuildError(_tell(errors), errors[0].hint)
    lines = [f"{_tell(group)} ({group[0].hint})" for group in groups.values()]
    rest = len(lines) - MAX_TOLD
    shown = lines[:MAX_TOLD] + ([f"and {rest} more"] if rest > 0 else [])
    return TvmbuildError(
        "\n  ".join([f"{len(errors)} nodes cannot be built:", *shown]), "replace them in the model as each line says"
    )


def _tell(errors: Sequence[NodeError]) -> str:
    first = errors[0]
    named = all(error.node.name for error in errors)
    names = [repr(error.node.name if named else error.node.output[0]) for error in errors]
    rest = len(names) - _MAX_NODES
    shown = ", ".join(names[:_MAX_NODES]) + (f" and {rest} more" if rest > 0 else "")
    which = f"{first.node.op_type} ({'node' if named else 'output'}{'s' if len(names) > 1 else ''} {shown})"
    which += f" of {first.node.domain}" if first.node.domain not in ONNX else ""
    if first.by_tvm:
        return f"TVM cannot import the operator {which}: {first.why.reason}"
    return f"the operator {which} cannot be built: {first.why.reason}"
