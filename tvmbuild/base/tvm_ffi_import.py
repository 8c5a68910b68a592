"""The import of tvm_ffi in a process in which a module other than PyTorch is called torch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

_NAME = "torch"


def import_tvm_ffi() -> None:
    """Import tvm_ffi if it would mistake a folder or module called torch, for example beside the script, for PyTorch.

    That import would end with "module 'torch' has no attribute 'int8'". In all other cases this function does nothing,
    and the first user imports tvm_ffi.
    """
    if "tvm_ffi" in sys.modules or not _is_shadowed():
        return
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == _NAME}
    for name in kept:
        del sys.modules[name]
    sys.modules[_NAME] = None  # type: ignore[assignment]  # Python takes None for an absent module
    try:
        importlib.import_module("tvm_ffi")
    finally:
        del sys.modules[_NAME]
        sys.modules.update(kept)


def _is_shadowed() -> bool:
    """Return whether `import torch` gives a module that is not PyTorch.

    A single file torch.py counts only if it is beside the script. A file in another folder is there on purpose: stages
    hide PyTorch with one.
    """
    if _NAME in sys.modules:
        return not hasattr(sys.modules[_NAME], "int8")
    spec = importlib.util.find_spec(_NAME)
    if spec is None:
        return False
    if spec.submodule_search_locations is None:
        is_beside = spec.origin is not None and Path(spec.origin).parent == Path(sys.path[0]).absolute()
        return is_beside and not getattr(sys.flags, "safe_path", False)
    return not any(Path(folder, "version.py").is_file() for folder in spec.submodule_search_locations)
