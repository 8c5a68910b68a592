"""A small binding of NVIDIA's driver for timing kernels, CUDA graphs and copies between two events.

It calls the driver through ctypes. Every machine with a card has the driver, so neither CuPy nor cuda-python is needed.
TVM's runtime makes the card's primary context current, and these calls use the same context.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED: during a capture, other threads of the process may call the driver freely."""
_NON_BLOCKING = 1


class CudaError(RuntimeError):
    """The error of a driver call that failed. After most of them the process's context cannot be used any more."""


@contextmanager
def open_context() -> Iterator[None]:
    """Make the first card's primary context current in this thread. It is needed only without TVM's runtime."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", ctypes.byref(device), 0)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    _call("cuCtxSetCurrent", context)
    try:
        yield
    finally:
        _driver().cuDevicePrimaryCtxRelease_v2(device)


def read_attribute(number: int) -> int:
    """Return the attribute of the first card that has this ``number`` in cuda.h."""
    value = ctypes.c_int()
    _call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
    return value.value


def read_version() -> int:
    """Return the major number of the newest CUDA that the driver knows."""
    version = ctypes.c_int()
    _call("cuDriverGetVersion", ctypes.byref(version))
    return version.value // 1000


@contextmanager
def allocate(size: int) -> Iterator[int]:
    """Yield the address of ``size`` uninitialised bytes on the card."""
    address = ctypes.c_uint64()
    _call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    try:
        yield address.value
    finally:
        _driver().cuMemFree_v2(address)


def copy(sink: int, source: int, size: int, stream: int) -> None:
    """Copy ``size`` bytes from the address ``source`` to ``sink`` within the card's memory, in order of the stream."""
    addresses = ctypes.c_uint64(sink), ctypes.c_uint64(source)
    _call("cuMemcpyDtoDAsync_v2", *addresses, ctypes.c_size_t(size), ctypes.c_void_p(stream))


def load_kernel(cubin: bytes, name: str) -> ctypes.c_void_p:
    """Load the machine code ``cubin`` and return its kernel called ``name``. The code stays loaded."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(module), cubin)
    _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    return function


def launch(kernel: ctypes.c_void_p, size: tuple[int, int], stream: int, arguments: Sequence[Any]) -> None:
    """Launch a kernel on the stream. ``size`` is (blocks, threads per block); the arguments are ctypes objects."""
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
    blocks, threads = size
    _call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, ctypes.c_void_p(stream), pointers, None)


@contextmanager
def open_stream() -> Iterator[int]:
    """Yield a new stream of the current context, as its handle."""
    stream = ctypes.c_void_p()
    _call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
    try:
        yield int(stream.value or 0)
    finally:
        _driver().cuStreamDestroy_v2(stream)


def synchronize(stream: int) -> None:
    """Wait until all work of the stream is done. Raises CudaError if a kernel failed."""
    _call("cuStreamSynchronize", ctypes.c_void_p(stream))


@contextmanager
def capture(stream: int, launch: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Capture the kernels that ``launch`` starts on the stream as a graph, and yield a function that runs the graph."""
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    _call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), _RELAXED)
    try:
        launch()
    finally:
        _call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
    try:
        _call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        yield lambda: _call("cuGraphLaunch", executable, ctypes.c_void_p(stream))
    finally:
        if executable:
            _driver().cuGraphExecDestroy(executable)
        _driver().cuGraphDestroy(graph)


def time_on_device(stream: int, work: Callable[[], object]) -> float:
    """Return how long the card took for the work that ``work`` puts on the stream, in seconds."""
    start, end, milliseconds = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    for event in (start, end):
        _call("cuEventCreate", ctypes.byref(event), 0)
    try:
        _call("cuEventRecord", start, ctypes.c_void_p(stream))
        work()
        _call("cuEventRecord", end, ctypes.c_void_p(stream))
        _call("cuEventSynchronize", end)
        _call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
    finally:
        for event in (start, end):
            _driver().cuEventDestroy_v2(event)
    return milliseconds.value / 1000


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    code = int(getattr(_driver(), name)(*arguments))
    if code != 0:
        text = ctypes.c_char_p()
        _driver().cuGetErrorName(code, ctypes.byref(text))
        raise CudaError(f"{name}: {(text.value or b'unknown').decode()} ({code})")
