"""The choice of a package's functions for inputs whose shapes vary, their padding, and the parts of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.runtime.tensors import copy_block, empty_array, read_array

if TYPE_CHECKING:
    from tvmbuild.base.size_specs import Axis
    from tvmbuild.package import padding
    from tvmbuild.package.size_functions import Calls, Part, SizeFunction, SizeFunctions
else:  # for packages with sizes
    padding = import_lazily("tvmbuild.package.padding")

Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fitted:
    """Inputs in the shapes of a function: all of them, or a part of their rows."""

    inputs: Mapping[str, Any]
    function: SizeFunction | None = None
    """The function of a size, or None if the package has one shape."""
    cuts: Mapping[str, tuple[Axis, ...]] = field(default_factory=dict)
    """The shape of each output in letters, if the inputs were padded."""
    values: Mapping[str, int] = field(default_factory=dict)
    """The values of the letters in this part, before it was padded."""

    def cut(self, outputs: Outputs) -> Outputs:
        """Return the function's outputs without what padding added."""
        if not self.cuts:
            return outputs
        return {name: padding.cut(value, self.cuts[name], self.values) for name, value in outputs.items()}


Known = dict[tuple[tuple[int, ...], ...], "Calls"]
"""The shapes of inputs, in their order → their calls."""
_MOST_KNOWN = 1024


def fit(info: PackageInfo, inputs: Mapping[str, Any], known: Known) -> list[Fitted]:
    """Return the inputs in the shapes of the smallest function that takes them, or of several for parts of a batch.

    ``known`` has the calls for shapes of earlier inputs, and gets those for new ones. Raises TvmbuildError, which lists
    the sizes, if there is no function.
    """
    sizes = info.sizes
    if sizes is None:
        return [Fitted(inputs)]
    arrays = {name: read_array(name, value) for name, value in inputs.items()}
    missing = [name for name in sizes.inputs if name not in arrays]
    if missing:
        raise TvmbuildError(f"{info.model} needs the input {', '.join(missing)}", sizes.describe())
    shapes = tuple(tuple(arrays[name].shape) for name in sizes.inputs)
    calls = known.get(shapes)
    if calls is None:
        calls = sizes.plan(dict(zip(sizes.inputs, shapes, strict=True)), info.model)
        if len(known) < _MOST_KNOWN:
            known[shapes] = calls
    if len(calls.parts) > 1:
        arrays = dict(_to_host(arrays, sizes))
    return [_fit_part(sizes, arrays, calls, part) for part in calls.parts]


def _fit_part(sizes: SizeFunctions, arrays: Mapping[str, Any], calls: Calls, part: Part) -> Fitted:
    """Return the inputs of one call, padded if they are smaller than its function."""
    function, values = part.function, part.values
    if len(calls.parts) > 1 and sizes.range is not None:
        letter = sizes.range.letter
        arrays = {
            name: padding.take_rows(each, sizes.inputs.get(name, ()), letter, part.start, values[letter])
            for name, each in arrays.items()
        }
    if not part.is_padded:
        return Fitted(arrays, function, values=values)
    shapes = {name: sizes.shape(name, function) or tuple(each.shape) for name, each in arrays.items()}
    return Fitted(padding.pad_inputs(_to_host(arrays, sizes), shapes, sizes.pad), function, sizes.outputs, values)


def check_parts(info: PackageInfo) -> None:
    """Raise TvmbuildError if the outputs of inputs in parts cannot stay on the package's device."""
    if info.target.on_gpu:
        told = f"{info.model} takes these inputs in parts, whose outputs are joined in the host's memory"
        raise TvmbuildError(told, "call `run`, or pass inputs of one of `sizes`")


def join(info: PackageInfo, parts: Sequence[Fitted], compute: Callable[[Fitted], Sequence[Any]]) -> Outputs:
    """Return the outputs of the parts of a batch, each copied from the device to its rows of one array.

    ``compute`` returns a part's outputs on the device, in the order of the package's outputs.
    """
    sizes = info.sizes
    if sizes is None or sizes.range is None:
        raise ValueError(f"{info.model} has no range, and computes nothing in parts")
    joined, start, letter = Outputs(), 0, sizes.range.letter
    rows = sum(each.values[letter] for each in parts)
    for part in parts:
        count = part.values[letter]
        function = part.function or sizes.functions[-1]
        for name, tensor in zip((each.name for each in info.outputs), compute(part), strict=True):
            if name not in joined:
                shape = sizes.cut_shape(name, function, {**part.values, letter: rows})
                joined[name] = empty_array(shape, str(tensor.dtype))
            copy_block(tensor, padding.take_rows(joined[name], sizes.outputs[name], letter, start, count))
        start += count
    return joined


def _to_host(arrays: Mapping[str, Any], sizes: SizeFunctions) -> dict[str, np.ndarray]:
    """Return arrays that can be padded or cut."""
    found: dict[str, np.ndarray] = {}
    for name, value in arrays.items():
        if not isinstance(value, tvm_ffi.Tensor):
            found[name] = value
        elif str(value.device).startswith("cpu"):
            found[name] = np.from_dlpack(value)
        else:
            raise TvmbuildError(f"the input {name} on {value.device} would have to be padded or cut", sizes.describe())
    return found
