"""The weights of a package as tensors, in the mapped file if they can be used there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import tvm_ffi

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.tensors import ALIGNMENT, empty_array, to_device
from tvmbuild.package.weights import FILLER, Weight, read_weights

_Item = TypeVar("_Item")


def load_weights(data: memoryview, device: Any, places: Sequence[int] | None = None) -> list[Any]:
    """Return the tensors of mod.params on the device, sorted by name. On a CPU, they lie in ``data`` if they can.

    With ``places``, return only the tensors there, in this order. Packages of older tvmbuilds have weights at any
    place, and those are copied. Raises TvmbuildError if ``data`` is damaged, or has fewer tensors.
    """
    try:
        weights = [each for each in read_weights(data) if not each.name.startswith(FILLER)]
    except ValueError as error:
        raise TvmbuildError(f"mod.params cannot be read: {error}", "build it again") from error
    if any(each.dtype is None for each in weights):
        return _pick(_load_by_tvm(data, device), places)
    content = np.frombuffer(data, np.uint8)
    if not content.flags.writeable:
        content = content.copy()  # NumPy before 2.1 does not export it
    weights = _pick(sorted(weights, key=lambda each: each.name), places)
    return [to_device(_make_tensor(content[each.start : each.start + each.size], each), device) for each in weights]


def _pick(items: list[_Item], places: Sequence[int] | None) -> list[_Item]:
    if places is None:
        return items
    if any(place >= len(items) for place in places):
        raise TvmbuildError("mod.params lacks weights of the package", "build it again")
    return [items[place] for place in places]


def _make_tensor(content: np.ndarray, weight: Weight) -> Any:
    if content.ctypes.data % ALIGNMENT:
        copy = empty_array(content.shape, "uint8")
        copy[...] = content
        content = copy
    tensor, shape = tvm_ffi.from_dlpack(content), tvm_ffi.Shape(weight.shape)
    return call("runtime.TVMTensorCreateView", tensor, shape, tvm_ffi.dtype(weight.dtype), 0)


def _load_by_tvm(data: memoryview, device: Any) -> list[Any]:
    try:
        params = call("runtime.LoadParams", bytes(data))
    except (RuntimeError, ValueError) as error:
        raise TvmbuildError(f"mod.params cannot be read: {str(error).splitlines()[0]}", "build it again") from error
    names = sorted(str(key) for key in params)
    return [to_device(params[name], device) for name in names if not name.startswith(FILLER)]
