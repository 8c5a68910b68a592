"""The user's export function in a process of its own: ``python -m tvmbuild.sources.export_process FOLDER``.

FOLDER contains the request. The process writes the model or the error there, under the names in
`tvmbuild.sources.export`.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx.external_data_helper import uses_external_data

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.processes import die_with_parent
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.export import CRASH, ERROR, REQUEST, RESULT
from tvmbuild.sources.user_code import explain_exception

WHERE = "under the model's `source:` in models.yaml"


def main(folder: Path) -> int:
    """Call the function of the request. Return 0 after writing its model, or 1 after writing the error."""
    die_with_parent()
    sys.dont_write_bytecode = True  # a module edited within the same second, to the same size, would stay old
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    root = Path(request["root"])
    script = root / request["script"]
    os.chdir(root)
    sys.argv = [str(script)]
    with (folder / CRASH).open("w") as crash:
        faulthandler.enable(crash)
        try:
            function = _find_function(_load(script), request["function"], request["script"])
            arguments = request["arguments"] | {name: Path(path) for name, path in request["files"].items()}
            _check_arguments(function, arguments, request)
            data = _serialize(function(**arguments), f"{request['script']}:{request['function']}")
        except TvmbuildError as error:
            return _report(folder, error)
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises, sys.exit included, is its error
            traceback.print_exc()
            return _report(folder, explain_exception(error, script, root))
        finally:
            faulthandler.disable()  # its file is closed at the end of this context
    write_bytes(folder / RESULT, data)
    return 0


def _report(folder: Path, error: TvmbuildError) -> int:
    write_json(folder / ERROR, {"message": error.message, "hint": error.hint})
    return 1


def _load(script: Path) -> ModuleType:
    """Run the file as `python script` would, with its folder first on the path, and return the module.

    Raises TvmbuildError if it is not a Python file.
    """
    sys.path.insert(0, str(script.parent))
    # A script called onnx.py must not take the library's place.
    name = "exported" if script.stem in sys.modules or script.stem in sys.stdlib_module_names else script.stem
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise TvmbuildError(f"{script} is no Python file", f"Correct `export:` {WHERE}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _find_function(module: ModuleType, name: str, shown: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if function is None:
        known = [key for key, value in vars(module).items() if inspect.isroutine(value) and not key.startswith("_")]
        own = [key for key in known if getattr(vars(module)[key], "__module__", None) == module.__name__] or known
        listed = f"its functions are {', '.join(own[:8])}" if own else "it defines none"
        raise TvmbuildError(
            f"{shown} has no function {name}; {listed}",
            f"{suggest(find_nearest(name, known))}Correct `export:` {WHERE}.",
        )
    if not callable(function):
        raise TvmbuildError(f"{name} in {shown} is a {type(function).__name__} and no function", "Name a function.")
    return function  # type: ignore[no-any-return]


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
