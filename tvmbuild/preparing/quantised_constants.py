"""The constants of a quantised model at all batches of a range: parts of a batch must be rounded as the whole is."""

from __future__ import annotations

from typing import Any

import onnx

from tvmbuild.errors import TvmbuildError

_OF_INTEGERS = frozenset({"QuantizeLinear", "DequantizeLinear"})


def take_constants(proto: Any, like: Any, name: str) -> None:
    """Give the constants of the QDQ model ``like`` to ``proto``, in place.

    Both are one model at two batches. Besides scales, zero points and integer weights, a library may choose other
    constants by the samples: NNCF corrects biases, and SmoothQuant multiplies activations by factors. Integers that
    are not quantised may be shapes, which have the batch, and stay. Raises TvmbuildError, which calls ``proto`` by its
    ``name``, if ``like`` lacks a constant that rounds or is rounded, or has it in another shape.
    """
    known = {tensor.name: tensor for tensor in like.graph.initializer}
    rounding = _match_rounding(proto, like)
    for tensor in proto.graph.initializer:
        own = tensor.name
        other = known.get(rounding.get(own, own))
        fits = other is not None and _describe(other) == _describe(tensor)
        if own in rounding and not fits:
            raise TvmbuildError(
                f"{name} cannot be a part of a range: its quantised operators are not those of the largest batch; "
                f"{own} {'is not there' if other is None else 'has another shape'}",
                "list the batches in models.yaml in place of the range, or name such operators in `exclude:`.",
            )
        if fits and (own in rounding or tensor.data_type == onnx.TensorProto.FLOAT):
            tensor.CopyFrom(other)
            tensor.name = own


def _match_rounding(proto: Any, like: Any) -> dict[str, str]:
    """Return name in ``proto`` → name in ``like`` for the inputs of operators that round.

    Operators are matched by their results: NNCF gives a tensor without negative samples a zero point of uint8 at once,
    and others one of int8, for which we make another of another name.
    """
    twins = {node.output[0]: node for node in like.graph.node if node.op_type in _OF_INTEGERS}
    matched: dict[str, str] = {}
    for node in proto.graph.node:
        if node.op_type in _OF_INTEGERS:
            twin = twins.get(node.output[0], node)
            matched.update(zip(node.input, twin.input, strict=False))
    return matched


def _describe(tensor: Any) -> tuple[list[int], int]:
    return list(tensor.dims), tensor.data_type
