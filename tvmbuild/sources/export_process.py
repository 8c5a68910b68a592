"""The user's export function in its own process: ``python -m tvmbuild.sources.export_process FOLDER``.

FOLDER contains the request. The process writes the model or the error there, under the names in
`tvmbuild.sources.user_process`.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx.external_data_helper import uses_external_data

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.user_answer import answer

WHERE = "under the model's `source:` in models.yaml"


def main(folder: Path) -> int:
    """Call the function of the request. Return 0 after writing its model, or 1 after writing the error."""
    return answer(folder, _export, "export", WHERE)


def _export(function: Callable[..., Any], request: dict[str, Any]) -> bytes:
    arguments = request["arguments"] | {name: Path(path) for name, path in request["files"].items()}
    _check_arguments(function, arguments, request)
    return _serialize(function(**arguments), f"{request['script']}:{request['function']}")


def _check_arguments(function: Callable[..., Any], arguments: dict[str, Any], request: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a C function: the call will show the error
        return
    called = f"{request['script']}: {request['function']}{signature}"
    try:
        signature.bind(**arguments)
    except TypeError as error:
        parameters = [name for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD]
        unknown = [name for name in arguments if name not in parameters]
        near = find_nearest(unknown[0], parameters) if unknown else None
        problem = (
            f"has no parameter {unknown[0]}" if len(parameters) == len(signature.parameters) and unknown else error
        )
        raise TvmbuildError(
            f"{called} {problem}", f"{suggest(near)}Correct `arguments:` and `files:` {WHERE}."
        ) from error


def _serialize(model: object, shown: str) -> bytes:
    """Return the bytes of the model that the function returned.

    Raises TvmbuildError if it is not a model, has weights in another file, or is too large.
    """
    if not isinstance(model, onnx.ModelProto):
        kind = f"{type(model).__module__}.{type(model).__qualname__}".removeprefix("builtins.")
        raise TvmbuildError(f"{shown} returned {kind}, not an onnx.ModelProto", _suggest_return(model))
    if not model.graph.node or not model.opset_import:
        raise TvmbuildError(f"{shown} returned an onnx.ModelProto without a graph", "Return a whole model.")
    outside = next((tensor.name for tensor in _list_weights(model.graph) if uses_external_data(tensor)), None)
    if outside is not None:
        raise TvmbuildError(
            f"{shown} returned a model whose weights are in another file ({outside})",
            "Read them before it returns: `onnx.load(path)` does, or `onnx.load_external_data_for_model`.",
        )
    try:
        return model.SerializeToString(deterministic=True)  # type: ignore[no-any-return]
    except (EncodeError, ValueError) as error:
        raise TvmbuildError(
            f"{shown} returned a model that cannot be written, most likely because it is larger than 2 GB: {error}",
            "Models that large are not supported.",
        ) from error


def _list_weights(graph: Any) -> list[Any]:
    return [*graph.initializer, *(attribute.t for node in graph.node for attribute in node.attribute)]


def _suggest_return(model: object) -> str:
    if model is None:
        return "End it with `return model`."
    if isinstance(getattr(model, "model_proto", None), onnx.ModelProto):
        return "Return its `.model_proto`."
    if isinstance(model, (str, os.PathLike)):
        return "Return `onnx.load(path)`."
    if isinstance(model, bytes):
        return "Return `onnx.load_from_string(data)`."
    return "Convert the network in the function, for example by torch.onnx.export(…, dynamo=True).model_proto."


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
