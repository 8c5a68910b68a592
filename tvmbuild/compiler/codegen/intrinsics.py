"""Registration of tensor intrinsics on demand, because importing all intrinsics of TVM takes 15 s of CPU time.

Source: https://github.com/apache/tvm, `s_tir/tensor_intrin/__init__.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import types
from pathlib import Path

_PACKAGE = "tvm.s_tir.tensor_intrin"
_OF_TVM = {
    "cuda": ("mma_", "wmma_"),
    "x86": ("dot_16x4_",),
    "arm_cpu": ("dot_4x4_", "sme_"),
    "dot_product_common": ("dp4a_",),
}
"""TVM's modules of intrinsics, with the beginnings of their names. Importing `cuda` takes 16 to 45 s of CPU time."""
_TENSOR_CORE = "tensor_core_"
"""The beginning of the names of tvmbuild's own intrinsics for tensor cores."""


def skip_tensor_intrinsics() -> None:
    """Keep TVM from importing all its tensor intrinsics; its modules of intrinsics can still be imported by name."""
    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(_find_tvm() / "s_tir" / "tensor_intrin")]
        sys.modules[_PACKAGE] = package


def register_named(trace: str) -> None:
    """Register the intrinsics that the text of a trace names, because TVM cannot apply the trace without them.

    A name that neither TVM nor tvmbuild has stays unknown.
    """
    if "Tensorize" not in trace:
        return
    from tvmbuild.compiler.codegen.dot_intrinsics import register_intrinsics  # noqa: PLC0415 - imports TVM
    from tvmbuild.compiler.codegen.tensor_cores.table import TYPES, register_tensor_cores  # noqa: PLC0415 - as above
    from tvmbuild.compiler.machine.dot_instructions import list_names  # noqa: PLC0415 - as above

    skip_tensor_intrinsics()
    names = set(re.findall(r"\w+", trace))
    for module, beginnings in _OF_TVM.items():
        if any(name.startswith(beginnings) for name in names):
            importlib.import_module(f"{_PACKAGE}.{module}")
    if any(name.startswith(_TENSOR_CORE) for name in names):
        for dtype in TYPES:
            register_tensor_cores(dtype)
    if names & list_names():
        register_intrinsics()


def _find_tvm() -> Path:
    spec = importlib.util.find_spec("tvm")
    if spec is None or spec.origin is None:
        raise ImportError("tvm is not installed")
    return Path(spec.origin).parent
