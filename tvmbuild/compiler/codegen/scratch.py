"""The memory that kernels allocate themselves, for example for padded inputs and packed operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.instrument import pass_instrument

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.package.allocations import Scratch

_ALLOCATE, _FREE = "tirx.TVMBackendAllocWorkspace", "tirx.TVMBackendFreeWorkspace"
_LOWERING = "tirx.LowerTVMBuiltin"
"""TVM's pass that turns buffers too large for the stack into calls of its runtime."""
_PAGE = 4096
"""TVM's pool of a thread rounds sizes up to pages."""


@dataclass(frozen=True)
class Event:
    """An allocation of a kernel, or the end of one."""

    buffer: Any
    """The variable that holds it."""
    size: int
    """The number of bytes; 0 for the end."""
    in_parallel: bool
    """True if each thread does it."""

    @property
    def dtype(self) -> str:
        """Return the type of the buffer's elements, those of vectors only."""
        return str(self.buffer.dtype).partition("x")[0]


@pass_instrument
class WatchAllocations:
    """Watches TVM's passes, and keeps the allocations of each function of the code that they make."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[Event, ...]] = {}

    def run_after_pass(self, mod: tvm.ir.IRModule, info: Any) -> None:
        """Look at the functions if this was the pass that decides about allocations."""
        if info.name == _LOWERING:
            self.found |= {variable.name_hint: _list_events(each) for variable, each in mod.functions.items()}


def find_scratch(calls: Iterable[str], found: Mapping[str, tuple[Event, ...]]) -> Scratch:
    """Return the bytes that kernels, called in this order, leave allocated in the pools of TVM's runtime."""
    caller, worker = _Pool(), _Pool()
    for name in calls:
        for event in found.get(name, ()):
            for pool in (caller, worker) if event.in_parallel else (caller,):
                pool.follow(event)
    return Scratch(caller.total, worker.total)


class _Pool:
    """TVM's pool of one thread. It takes the smallest free block that fits, or else makes the largest one larger."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._used: dict[Any, int] = {}

    @property
    def total(self) -> int:
        """Return the bytes that the pool has from the system."""
        return sum(self._free) + sum(self._used.values())

    def follow(self, event: Event) -> None:
        """Do what the pool does."""
        if not event.size:
            self._free.append(self._used.pop(event.buffer))
            return
        size = -(-event.size // _PAGE) * _PAGE
        block = min((each for each in self._free if each >= size), default=max(self._free, default=0))
        if block:
            self._free.remove(block)
        self._used[event.buffer] = max(block, size)


def _list_events(function: tirx.PrimFunc) -> tuple[Event, ...]:
    """Return the allocations of a lowered function and their ends, in its order."""
    events: list[Event] = []
    _walk(function.body, lambda buffer, size: events.append(Event(buffer, size, in_parallel=False)))
    if not events:
        return ()
    parallel: set[Any] = set()

    def note(loop: tirx.For) -> None:
        if loop.kind == tirx.ForKind.PARALLEL:
            _walk(loop.body, lambda buffer, _: parallel.add(buffer))

    tvm_ffi.structural_walk(function.body, [(tirx.For, note)])
    return tuple(Event(each.buffer, each.size, each.buffer in parallel) for each in events)


def _walk(body: Any, tell: Callable[[Any, int], object]) -> None:
    """Call ``tell`` with the buffer and the size of each allocation, and with the size 0 at its end."""

    def note_buffer(declared: tirx.DeclBuffer) -> None:
        if is_call(declared.data, _ALLOCATE):
            tell(declared.buffer, int(declared.data.args[2]))

    def note_call(call: tvm.ir.Call) -> None:
        if is_call(call, _FREE):
            tell(call.args[2].args[0], 0)

    tvm_ffi.structural_walk(body, [(tirx.DeclBuffer, note_buffer), (tvm.ir.Call, note_call)])
