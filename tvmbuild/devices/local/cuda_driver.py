"""The few calls of NVIDIA's driver with which a kernel is timed: a CUDA graph of its launches, between two events.

Through ctypes, for the driver is wherever a card is, and so that neither CuPy nor cuda-python is needed there. What
TVM's runtime makes current is the primary context, which the driver's calls then use too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

_RELAXED = 2
"""Of the capture: other threads of the process may do as they like."""
_NON_BLOCKING = 1


class CudaError(RuntimeError):
    """The driver refused a call; most of its errors break the process's context for good."""


@contextmanager
def open_stream() -> Iterator[int]:
    """Yield a stream of the current context."""
    stream = ctypes.c_void_p()
    _call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
    try:
        yield int(stream.value or 0)
    finally:
        _driver().cuStreamDestroy_v2(stream)


def synchronize(stream: int) -> None:
    """Wait for all that the stream was given; CudaError when a kernel failed."""
    _call("cuStreamSynchronize", ctypes.c_void_p(stream))


@contextmanager
def capture(stream: int, launch: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Yield what runs on the stream, as one graph, the kernels that ``launch`` launches on it."""
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
    """Return the seconds between the begin and the end of ``work`` on the device."""
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
