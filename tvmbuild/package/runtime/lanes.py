"""Lanes: the copies of a call on a GPU, beside the kernels of other calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvmbuild.package.runtime.call_queue import CallQueue, Finish, Start
from tvmbuild.package.runtime.device_errors import EXPLAINED_ERRORS
from tvmbuild.package.runtime.foreign_stream import KERNELS
from tvmbuild.package.runtime.library import call, has_function
from tvmbuild.package.runtime.shared_memory import (
    CUDA,
    VULKAN,
    page_locked_tensor,
    shares_memory,
    view_array,
)
from tvmbuild.package.runtime.tensors import allocate_like, place, to_arrays

if TYPE_CHECKING:
    from concurrent.futures import Future

LANES = 3
"""The calls of a session on a GPU at the same time: inputs go up, kernels run, outputs come down."""
_RUNTIMES = {CUDA: "tvmbuild_cuda", VULKAN: "tvmbuild_vulkan"}
"""The prefix of the functions of tvmbuild's own runtime, by DLPack's number of the device type."""
_HOST = tvm_ffi.device("cpu", 0)


class Lane:
    """A stream for the copies of one call at a time, and memory for its inputs and outputs.

    The kernels of all calls stay on one stream, because they share the workspace.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._shares_memory = shares_memory(device)
        self._has_page_locked = device.dlpack_device_type() == CUDA
        own = _RUNTIMES[device.dlpack_device_type()]
        self._stream = call("runtime.Device_StreamCreate", device)
        self._copy_in, self._copy_out, self._sync, self._set, self._wait, self._free = map(
            tvm_ffi.get_global_func,
            (
                f"{own}.copy_in",
                f"{own}.copy_out",
                "runtime.Device_StreamSyncFromTo",
                "runtime.Device_SetStream",
                "runtime.Device_StreamSync",
                "runtime.Device_StreamFree",
            ),
        )
        if self._has_page_locked:
            for short in (self._copy_out, self._sync, self._set):
                short.release_gil = False  # giving it up takes longer
        self._kept: dict[object, dict[str, Any]] = {}
        self._staged: dict[object, tuple[list[Any], list[np.ndarray]]] = {}

    def __del__(self) -> None:
        """Release the stream. Copies that are on it go on."""
        if hasattr(self, "_free"):
            self._free(self._device, self._stream)

    def place(self, function: object, values: Mapping[str, Any]) -> tuple[list[Any], object]:
        """Copy a function's inputs to the GPU. Returns them as tensors, and what must stay until the call is done.

        The kernels that this thread launches next wait for the copies.
        """
        kept = self._kept.setdefault(function, {})
        copies: list[tuple[Any, Any]] = []

        def add(tensor: Any, device: Any, into: Any) -> Any:
            into = allocate_like(tensor, device) if into is None else into
            copies.append((tensor, into))
            return into

        placed = [place(name, value, self._device, kept, add) for name, value in values.items()]
        if copies:
            self._copy_in(self._stream, *(each for pair in copies for each in pair))
        return placed, copies

    def fetch(self, function: object, outputs: list[Any]) -> Callable[[], list[np.ndarray]]:
        """Copy a function's outputs to the host after the kernels of this thread; return what waits for them."""
        if self._shares_memory:
            self._sync(self._device, KERNELS, self._stream)
            return lambda: self._take_shared(outputs)
        if not self._has_page_locked:
            tensors = [allocate_like(each, _HOST) for each in outputs]
            staged, arrays = tensors, [view_array(each) for each in tensors]
        elif function in self._staged:
            staged, arrays = self._staged[function]
        else:
            staged = [page_locked_tensor(each) for each in outputs]
            arrays = [view_array(each) for each in staged]
            self._staged[function] = staged, arrays
        self._copy_out(self._stream, *(each for pair in zip(outputs, staged, strict=True) for each in pair))

        def finish() -> list[np.ndarray]:
            self._wait(self._device, self._stream)
            outputs.clear()
            return [each.copy() for each in arrays] if self._has_page_locked else arrays

        return finish

    def _take_shared(self, outputs: list[Any]) -> list[np.ndarray]:
        self._set(self._device, self._stream)
        try:
            return to_arrays(outputs)
        finally:
            self._set(self._device, KERNELS)


class BackgroundCalls:
    """The calls of a session that do not wait. On a GPU their copies overlap kernels, in lanes."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._lanes: list[Lane] = []  # idle ones
        self._closed = False
        own = _RUNTIMES.get(device.dlpack_device_type())
        self._has_lanes = own is not None and has_function(f"{own}.copy_out")
        self._queue = CallQueue(LANES if self._has_lanes else 1)

    def submit(self, start: Callable[[Lane | None], Finish], *, newest: bool) -> Future[Any]:
        """Return the future of a call, which ``start`` begins in a lane, on a GPU with tvmbuild's runtime."""
        return self._queue.submit(self._begin(start), newest=newest)

    def close(self) -> None:
        """Cancel the calls that wait, and take no more. The calls that were started go on."""
        self._queue.close()
        self._closed = True
        self._lanes.clear()  # lanes of running calls go when these are done

    def _begin(self, start: Callable[[Lane | None], Finish]) -> Start:
        if not self._has_lanes:
            return functools.partial(start, None)

        def begin() -> Finish:
            with EXPLAINED_ERRORS:
                lane = self._borrow()
                finish = start(lane)  # after an error the lane is not used again

            def finish_and_give_back() -> Any:
                with EXPLAINED_ERRORS:
                    result = finish()
                self._give_back(lane)
                return result

            return finish_and_give_back

        return begin

    def _borrow(self) -> Lane:
        try:
            return self._lanes.pop()  # without a lock: pop and append are atomic
        except IndexError:
            return Lane(self._device)

    def _give_back(self, lane: Lane) -> None:
        self._lanes.append(lane)
        if self._closed:  # perhaps just now
            self._lanes.clear()
