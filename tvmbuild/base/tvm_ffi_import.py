"""The import of tvm_ffi without modules that it would take for PyTorch, or that take long and are not used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_TORCH = "torch"
_CUDA = "cuda.bindings"


def import_if_shadowed() -> None:
    """Import tvm_ffi if it would mistake a folder or module called torch, for example beside the script, for PyTorch.

    That import would end with "module 'torch' has no attribute 'int8'". In all other cases this function does nothing,
    and the first user imports tvm_ffi.
    """
    if "tvm_ffi" not in sys.modules and _is_shadowed():
        import_tvm_ffi()


def import_tvm_ffi() -> None:
    """Import tvm_ffi without `cuda.bindings`, which takes a third of the import, unless one of them is imported.

    tvm_ffi needs `cuda.bindings` only for a CUstream as an argument of a function. A program that passes one imports
    tvm_ffi first.
    """
    if "tvm_ffi" in sys.modules:
        return
    names = [*([_TORCH] if _is_shadowed() else []), *([] if _CUDA in sys.modules else [_CUDA])]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_hide(name))
        importlib.import_module("tvm_ffi")


@contextmanager
def _hide(hidden: str) -> Iterator[None]:
    kept = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{hidden}.")}
    for name in kept:
        del sys.modules[name]
    sys.modules[hidden] = None  # type: ignore[assignment]  # Python takes None for an absent module
    try:
        yield
    finally:
        del sys.modules[hidden]
        sys.modules.update(kept)


def _is_shadowed() -> bool:
    """Return whether `import torch` gives a module that is not PyTorch.

    A single file torch.py counts only if it is beside the script. A file in another folder is there on purpose: stages
    hide PyTorch with one.
    """
    if _TORCH in sys.modules:
        return not hasattr(sys.modules[_TORCH], "int8")
    spec = importlib.util.find_spec(_TORCH)
    if spec is None:
        return False
    if spec.submodule_search_locations is None:
        is_beside = spec.origin is not None and Path(spec.origin).parent == Path(sys.path[0]).absolute()
        return is_beside and not getattr(sys.flags, "safe_path", False)
    return not any(Path(folder, "version.py").is_file() for folder in spec.submodule_search_locations)
