"""Registration of tensor intrinsics on demand, because importing all intrinsics of TVM takes 15 s of CPU time.

Source: https://github.com/apache/tvm, `s_tir/tensor_intrin/__init__.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

_PACKAGE = "tvm.s_tir.tensor_intrin"


def skip_tensor_intrinsics() -> None:
    """Keep TVM from importing all its tensor intrinsics; the intrinsics for CUDA can still be imported by name."""
    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(_find_tvm() / "s_tir" / "tensor_intrin")]
        sys.modules[_PACKAGE] = package


def use_cuda_intrinsics() -> None:
    """Register the intrinsics for NVIDIA's tensor cores, from TVM and from tvmbuild; replaying records needs both."""
    from tvmbuild.compiler.codegen.tensor_cores.table import TYPES, register_tensor_cores  # noqa: PLC0415 - imports TVM

    skip_tensor_intrinsics()
    importlib.import_module(f"{_PACKAGE}.cuda")
    for dtype in TYPES:
        register_tensor_cores(dtype)


def use_dot_intrinsics() -> None:
    """Register the tensor intrinsics for the dot-product instructions of CPUs."""
    from tvmbuild.compiler.codegen.dot_intrinsics import register_intrinsics  # noqa: PLC0415 - imports TVM

    register_intrinsics()


def prepare_intrinsics(mod: Any, target: Any) -> None:
    """Register the intrinsics that records of the module's Tasks may name. Call it before reading a record."""
    if _multiplies_on_tensor_cores(mod, target):
        use_cuda_intrinsics()
        return
    skip_tensor_intrinsics()
    if _names_dots(mod):
        use_dot_intrinsics()


def _multiplies_on_tensor_cores(mod: Any, target: Any) -> bool:
    """Return whether a function of the module may compute on the target's tensor cores."""
    from tvm import tirx  # noqa: PLC0415 - skip_tensor_intrinsics comes before TVM

    from tvmbuild.compiler.ir.prim_funcs import allows_tf32  # noqa: PLC0415 - as above
    from tvmbuild.compiler.machine.target import tensor_core_types  # noqa: PLC0415 - as above

    functions = (each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc))
    return any(
        str(getattr(buffer, "dtype", "")) in tensor_core_types(target, tf32=allows_tf32(function))
        for function in functions
        for buffer in function.params
    )


def _names_dots(mod: Any) -> bool:
    """Return whether a block of a function in the module is annotated with a dot instruction."""
    from tvm import tirx  # noqa: PLC0415 - as above

    from tvmbuild.compiler.ir.prim_funcs import list_blocks  # noqa: PLC0415 - as above
    from tvmbuild.compiler.machine.dot_instructions import ANNOTATION  # noqa: PLC0415 - as above

    functions = (each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc))
    return any(ANNOTATION in block.annotations for function in functions for block in list_blocks(function))


def _find_tvm() -> Path:
    spec = importlib.util.find_spec("tvm")
    if spec is None or spec.origin is None:
        raise ImportError("tvm is not installed")
    return Path(spec.origin).parent
