"""The choice of a package's function for inputs whose shapes vary, and their padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.runtime.tensors import read_array

if TYPE_CHECKING:
    from tvmbuild.base.size_specs import Axis, Size
    from tvmbuild.package import padding
    from tvmbuild.package.size_functions import SizeFunction, SizeFunctions
else:  # for packages with sizes
    padding = import_lazily("tvmbuild.package.padding")


@dataclass(frozen=True)
class Fitted:
    """Inputs in the shapes of a function."""

    inputs: Mapping[str, Any]
    function: SizeFunction | None = None
    """The function of a size, or None if the package has one shape."""
    cuts: Mapping[str, tuple[Axis, ...]] = field(default_factory=dict)
    """The shape of each output in letters, if the inputs were padded."""
    size: Size | None = None
    """The size of the inputs before they were padded."""

    def cut(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the function's outputs without what padding added."""
        if self.size is None:
            return outputs
        return {name: padding.cut(value, self.cuts[name], self.size.values) for name, value in outputs.items()}


def fit(info: PackageInfo, inputs: Mapping[str, Any]) -> Fitted:
    """Return the smallest function that takes the inputs, and the inputs in its shapes.

    Raises TvmbuildError, which lists the sizes, if there is none.
    """
    sizes = info.sizes
    if sizes is None:
        return Fitted(inputs)
    arrays = {name: read_array(name, value) for name, value in inputs.items()}
    missing = [name for name in sizes.inputs if name not in arrays]
    if missing:
        raise TvmbuildError(f"{info.model} needs the input {', '.join(missing)}", sizes.describe())
    function, size = sizes.choose({name: tuple(each.shape) for name, each in arrays.items()}, info.model)
    if size.values == function.values:
        return Fitted(arrays, function)
    shapes = {name: sizes.shape(name, function) or tuple(each.shape) for name, each in arrays.items()}
    return Fitted(padding.pad_inputs(_to_host(arrays, sizes), shapes, sizes.pad), function, sizes.outputs, size)


def _to_host(arrays: Mapping[str, Any], sizes: SizeFunctions) -> dict[str, np.ndarray]:
    """Return arrays that can be padded."""
    found: dict[str, np.ndarray] = {}
    for name, value in arrays.items():
        if not isinstance(value, tvm_ffi.Tensor):
            found[name] = value
        elif str(value.device).startswith("cpu"):
            found[name] = np.from_dlpack(value)
        else:
            raise TvmbuildError(f"the input {name} on {value.device} would have to be padded", sizes.describe())
    return found
