"""The process in which the user's function runs, for `tvmbuild/sources/user_process.py`."""

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

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.processes import die_with_parent
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.user_code import explain_exception
from tvmbuild.sources.user_process import CRASH, ERROR, REQUEST, RESULT

Function = Callable[..., Any]


def answer(folder: Path, call: Callable[[Function, dict[str, Any]], bytes], key: str, where: str) -> int:
    """Write the result of ``call``, which is given the user's function and the request, or the error, into ``folder``.

    ``key`` of models.yaml, which is ``where``, names the function. Return the status of the process.
    """
    die_with_parent()
    sys.dont_write_bytecode = True  # a module edited within the same second, to the same size, would stay old
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    root = Path(request["root"])
    script = root / request["script"]
    os.chdir(root)
    sys.argv = [str(script)]
    correct = f"Correct `{key}:` {where}."
    with (folder / CRASH).open("w") as crash:
        faulthandler.enable(crash)
        try:
            function = _find_function(_load(script, correct), request, correct)
            data = call(function, request)
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


def _load(script: Path, correct: str) -> ModuleType:
    """Run the file as `python script` would, with its folder first on the path, and return the module.

    Raises TvmbuildError if it is not a Python file.
    """
    sys.path.insert(0, str(script.parent))
    # A script called onnx.py must not take the library's place.
    name = "exported" if script.stem in sys.modules or script.stem in sys.stdlib_module_names else script.stem
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise TvmbuildError(f"{script} is not a Python file", correct)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _find_function(module: ModuleType, request: dict[str, Any], correct: str) -> Function:
    name, shown = request["function"], request["script"]
    function = getattr(module, name, None)
    if function is None:
        known = [key for key, value in vars(module).items() if inspect.isroutine(value) and not key.startswith("_")]
        own = [key for key in known if getattr(vars(module)[key], "__module__", None) == module.__name__] or known
        listed = f"its functions are {', '.join(own[:8])}" if own else "it defines none"
        raise TvmbuildError(
            f"{shown} has no function {name}; {listed}", f"{suggest(find_nearest(name, known))}{correct}"
        )
    if not callable(function):
        raise TvmbuildError(f"{name} in {shown} is a {type(function).__name__} and no function", "Name a function.")
    return function  # type: ignore[no-any-return]
