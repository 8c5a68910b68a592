"""Python imports this file at its start if PYTHONPATH names this folder: the importer then halves every Gemm."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

IMPORTER = "tvmbuild.compiler.importing.importer"


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == IMPORTER else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            changed = {**module.CONVERTERS, "Gemm": _convert_wrongly}
            module.CONVERTERS = changed  # type: ignore[attr-defined]

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def _convert_wrongly(call: Any) -> Any:
    call.attributes["alpha"] = call.attributes.get("alpha", 1.0) / 2
    return call.by_tvm()


sys.meta_path.insert(0, _Finder())
