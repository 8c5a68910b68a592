"""The import of tvm_ffi without what it would take for PyTorch, and what takes long and is not used."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import typing
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from tvmbuild.base.lazy_modules import import_lazily

_TORCH = "torch"
_CUDA = "cuda.bindings"
_CPP = "tvm_ffi.cpp"
_METADATA = "importlib.metadata"
_TYPING = "typing_extensions"
_GENERATOR = "tvm_ffi.dataclasses.gen_abi_cpp"
_FOR_TORCH = "tvm_ffi._optional_torch_c_dlpack"
_LOCK = Lock()


def import_if_shadowed() -> None:
    """Import tvm_ffi if it would mistake a folder or module called torch, for example beside the script, for PyTorch.

    That import would end with "module 'torch' has no attribute 'int8'". In all other cases this function does nothing,
    and the first user imports tvm_ffi.
    """
    if "tvm_ffi" not in sys.modules and _is_shadowed():
        import_tvm_ffi()


def import_tvm_ffi() -> None:
    """Import tvm_ffi unless it is imported, in less than half of its own time.

    Some parts of the import are left out. PyTorch, which takes seconds, is imported only if the program has done so;
    `adopt_torch` catches up. tvm_ffi needs `cuda.bindings` only for a CUstream as an argument of a function; a program
    that passes one imports tvm_ffi first. `tvm_ffi.cpp`, the compiler of inline C++, is imported when it is used.
    `importlib.metadata`, which reads the list of the wheel's files, is not asked for the place of libtvm_ffi.so if it
    is in the wheel's own folder. From Python 3.11 on, `typing` has what it takes of `typing_extensions`. Its generator
    of C++ declarations is imported when it is used.
    """
    with _LOCK:
        if "tvm_ffi" not in sys.modules:
            _import_without_others()


def _import_without_others() -> None:
    if _is_beginning(_TORCH):  # in another thread: this waits for it
        importlib.import_module(_TORCH)
    hidden: dict[str, ModuleType | None] = {} if _CUDA in sys.modules else {_CUDA: None}
    has_torch = _TORCH in sys.modules and not _is_shadowed()
    hidden |= {} if has_torch else {_TORCH: None}
    lazy = [_CPP, *([] if has_torch else [_FOR_TORCH])]
    hidden |= {name: import_lazily(name) for name in lazy}
    is_found = _METADATA not in sys.modules and _has_own_library()
    hidden |= {_METADATA: _NoDistributions(_METADATA)} if is_found else {}
    hidden |= {_TYPING: _Typing(_TYPING)} if hasattr(typing, "Self") and _TYPING not in sys.modules else {}
    hidden[_GENERATOR] = _Generator(_GENERATOR)
    with ExitStack() as stack:
        for name, module in hidden.items():
            stack.enter_context(_replace(name, module))
        importlib.import_module("tvm_ffi")
    if is_found:
        libinfo = importlib.import_module("tvm_ffi.libinfo")
        libinfo.im = import_lazily(_METADATA)  # type: ignore[attr-defined]  # for those who look for other libraries


def adopt_torch() -> None:
    """Give tvm_ffi what it has for PyTorch's tensors, if the program has imported PyTorch later than tvm_ffi."""
    if _FOR_TORCH not in sys.modules:
        importlib.import_module("tvm_ffi._convert").torch = sys.modules[_TORCH]  # type: ignore[attr-defined]
        importlib.import_module(_FOR_TORCH)


class _NoDistributions(ModuleType):
    """A stand-in for `importlib.metadata` that finds no distribution, so that tvm_ffi looks into its own folder."""

    PackageNotFoundError = ModuleNotFoundError

    def distribution(self, name: str) -> None:
        raise ModuleNotFoundError(name)


class _Typing(ModuleType):
    """A stand-in for `typing_extensions`, with what the standard library has of it."""

    def __getattr__(self, name: str) -> Any:
        for module in (typing, inspect):
            if hasattr(module, name):
                return getattr(module, name)
        del sys.modules[_TYPING]  # itself
        return getattr(importlib.import_module(_TYPING), name)


class _Generator(ModuleType):
    """A stand-in for the module `gen_abi_cpp`, which imports it when its function of this name is called."""

    @staticmethod
    def gen_abi_cpp(*arguments: Any, **named: Any) -> Any:
        generate = importlib.import_module(_GENERATOR).gen_abi_cpp
        # The import has put the module in the place of the function.
        importlib.import_module("tvm_ffi.dataclasses").gen_abi_cpp = generate  # type: ignore[attr-defined]
        return generate(*arguments, **named)


def _is_beginning(name: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))


def _has_own_library() -> bool:
    spec = importlib.util.find_spec("tvm_ffi")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return any(Path(folder, "lib/libtvm_ffi.so").is_file() for folder in folders)


@contextmanager
def _replace(replaced: str, stand_in: ModuleType | None) -> Iterator[None]:
    """Replace a module in `sys.modules` during the context. None stands for an absent one."""
    kept = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{replaced}.")}
    for name in kept:
        del sys.modules[name]
    sys.modules[replaced] = stand_in  # type: ignore[assignment]  # Python takes None for an absent module
    try:
        yield
    finally:
        sys.modules.pop(replaced, None)
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
