"""CUDA streams of other libraries, which a call waits for and signals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.shared_memory import CUDA

_SYNC = "runtime.Device_StreamSyncFromTo"
KERNELS = 0
"""The stream of a thread that has set no other one: the kernels of all sessions run there, one after another."""


def read_stream(stream: Any) -> int:
    """Return the handle of a CUDA stream: a number, PyTorch's stream, or an object with ``__cuda_stream__``.

    https://nvidia.github.io/cuda-python/cuda-core/latest/interoperability.html#cuda-stream-protocol
    """
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    found = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))  # PyTorch's, and older CuPys'
    if isinstance(found, Integral) and not isinstance(found, bool):
        return int(found)
    raise TvmbuildError(f"{stream!r} is no CUDA stream", "pass PyTorch's or CuPy's stream, or its handle as a number")


@contextmanager
def order_stream(device: Any, stream: Any) -> Iterator[None]:
    """Let the kernels of the block wait for the work on ``stream`` so far, and later work on it for these kernels.

    With None, do nothing. Raises TvmbuildError for other things than streams, and for other devices than CUDA cards.
    """
    if stream is None:
        yield
        return
    handle = read_stream(stream)
    if device.dlpack_device_type() != CUDA:
        raise TvmbuildError(f"the package runs on {device}, which has no CUDA streams", "leave out `stream`")
    if handle == KERNELS:
        yield  # the kernels run there
        return
    call(_SYNC, device, handle, KERNELS)
    yield
    call(_SYNC, device, KERNELS, handle)
