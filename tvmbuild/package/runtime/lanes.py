"""Lanes: the copies of a call on a CUDA card, beside the kernels of other calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm_ffi

from tvmbuild.package.runtime.call_queue import CallQueue, Finish, Start
from tvmbuild.package.runtime.device_errors import EXPLAINED_ERRORS
from tvmbuild.package.runtime.library import call, has_function

LANES = 3
"""The calls of a session on a card at the same time: inputs go up, kernels run, outputs come down."""
_CUDA = 2
_OWN_RUNTIME = "tvmbuild_cuda.devices"
_KERNELS = 0
"""The stream of a thread that has set no other one: the kernels of all sessions run there, one after another."""


class Lane:
    """A stream for the copies of one call at a time, and the memory of its inputs on the card.

    The kernels of all calls stay on one stream, because they share the workspace.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._stream = call("runtime.Device_StreamCreate", device)
        self._set_stream, self._sync, self._free = map(
            tvm_ffi.get_global_func,
            ("runtime.Device_SetStream", "runtime.Device_StreamSyncFromTo", "runtime.Device_StreamFree"),
        )
        self.kept: dict[object, dict[str, Any]] = {}
        """A program's function → its inputs' memory by their names."""

    def __del__(self) -> None:
        """Release the stream. Copies that are on it go on."""
        if hasattr(self, "_free"):
            self._free(self._device, self._stream)

    @contextmanager
    def copies(self) -> Iterator[None]:
        """Run the copies of this thread in the lane."""
        self._set_stream(self._device, self._stream)
        try:
            yield
        finally:
            self._set_stream(self._device, _KERNELS)

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Let the kernels of the block wait for the lane's copies, and later copies for these kernels."""
        self._sync(self._device, self._stream, _KERNELS)
        yield
        self._sync(self._device, _KERNELS, self._stream)


class BackgroundCalls:
    """The calls of a session that do not wait. On a CUDA card their copies overlap kernels, in lanes."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._lanes: list[Lane] = []  # idle ones
        self._has_lanes = device.dlpack_device_type() == _CUDA and has_function(_OWN_RUNTIME)
        self._queue = CallQueue(LANES if self._has_lanes else 1)

    def submit(self, start: Callable[[Lane | None], Finish], *, newest: bool) -> Any:
        """Return the future of a call, which ``start`` begins in a lane; on other devices than CUDA cards, in none."""
        return self._queue.submit(self._begin(start), newest=newest)

    def close(self) -> None:
        """Cancel the calls that wait, and take no more. The calls that were started go on."""
        self._queue.close()
        self._lanes.clear()

    def _begin(self, start: Callable[[Lane | None], Finish]) -> Start:
        if not self._has_lanes:
            return functools.partial(start, None)

        def begin() -> Finish:
            with EXPLAINED_ERRORS:
                lane = self._lanes.pop() if self._lanes else Lane(self._device)
                finish = start(lane)  # after an error the lane is not used again

            def finish_and_give_back() -> Any:
                with EXPLAINED_ERRORS:
                    result = finish()
                self._lanes.append(lane)
                return result

            return finish_and_give_back

        return begin
