"""The buffers of a kernel's arguments, as kernels read and write them."""

from __future__ import annotations

import math
from typing import Any

from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import wide


def whole(buffer: Any) -> Any:
    """Return the region of all elements of a buffer, to declare what a block reads or writes."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def flatten(buffer: Any) -> Any:
    """Declare and return a view of the buffer with a single axis."""
    size = math.prod(int(extent) for extent in buffer.shape)
    return T.decl_buffer(wide(size), str(buffer.dtype), data=buffer.data, layout=None)
