"""A model as quantisers want it: of an opset with scales for each channel, every node with a name."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.version_converter

from tvmbuild.compiler.importing.expand.scope import find_opset
from tvmbuild.errors import TvmbuildError

OPSET = 13
"""The first in which a weight has a scale for each channel."""
_IR_VERSION = 8
"""The least of the format that goes with it: constants need not be inputs."""


def modernise(proto: Any, name: str) -> Any:
    """Return the ModelProto, or a changed one; TvmbuildError where ONNX cannot express it in the opset."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    fed = [value for value in proto.graph.input if value.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(fed)
    proto.ir_version = max(proto.ir_version, _IR_VERSION)
    if find_opset(proto) < OPSET:
        proto = _convert(proto, name)
    _name_nodes(proto)
    return proto


def _name_nodes(proto: Any) -> None:
    """Give every node a name of its own: the first of each keeps it."""
    taken = {node.name for node in proto.graph.node}
    seen = {""}
    for index, node in enumerate(proto.graph.node):
        if node.name in seen:
            name = f"{node.op_type}_{index}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)
        seen.add(node.name)


def _convert(proto: Any, name: str) -> Any:
    try:
        return onnx.version_converter.convert_version(proto, OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TvmbuildError(
            f"{name} is of the opset {find_opset(proto)} and cannot be expressed in {OPSET}, "
            f"which quantising takes: {reason}",
            f"export the model with the opset {OPSET} or later, or take `quantize:` away",
        ) from error
