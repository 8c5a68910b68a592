"""Times of kernels by the card's own clock, also inside a CUDA graph, as CUPTI reports them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Event, GraphTime, is_kernel
from tvmbuild.package.runtime.cuda.activities import COPY, Activity, list_events, summarize_graph
from tvmbuild.package.runtime.host_clock import HostClock

_BUFFER_BYTES = 8 << 20
_FORCED = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: also flush activities that are not quite finished."""
INSTALL = "`pip install 'tvmbuild[cupti]'`"


class CardClock:
    """A hook for the virtual machine, and the runs that it sees: one thread at a time, one CardClock in a process.

    Kernels and copies have the card's times, without waits between them. A function that is neither in the package's
    ``kernels`` nor the virtual machine's computes on the host: it has the host's time, and begins when the card is
    done. Raises TvmbuildError if CUPTI is missing or does not work here.
    """

    def __init__(self, wait: Callable[[], None], kernels: Collection[str] | None) -> None:
        self._wait = wait
        self._host = HostClock(wait, lambda name: not is_kernel(name, kernels))
        self._told: list[Activity] = []
        self._runs: list[list[Activity]] = []
        self._cupti = _import_cupti()
        self._kinds = [getattr(self._cupti.ActivityKind, name) for name in ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET")]
        try:
            self._cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._keep)
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
        except (RuntimeError, self._cupti.cuptiError) as error:
            raise TvmbuildError(f"CUPTI does not work here: {error}") from error

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Return the events of one run: those of the card, then those of the host."""
        self._flush()
        self._told = []
        host = self._host.run(run_once)
        self._flush()
        self._runs.append(self._told)
        return [*list_events(self._told), *host]

    def note(self, function: object, name: str, before: bool, result: object, *arguments: object) -> None:
        """Note that a call begins or has ended."""
        self._host.note(function, name, before, result, *arguments)

    def finish(self, runs: int) -> GraphTime | None:
        """Stop recording; return the CUDA graph's time over the last ``runs`` runs, or None without a graph."""
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        return summarize_graph(self._runs[-runs:])

    def _flush(self) -> None:
        self._wait()
        self._cupti.activity_flush_all(_FORCED)

    def _keep(self, records: list[Any]) -> None:
        """Store the activities that CUPTI has finished. The records are gone afterwards."""
        kernel = self._kinds[0]
        for each in records:
            name = str(each.name) if each.kind == kernel else COPY
            self._told.append(Activity(name, int(each.start), int(each.end), int(each.graph_id)))


def _import_cupti() -> ModuleType:
    try:
        from cupti import cupti  # noqa: PLC0415 - an extra
    except (ImportError, RuntimeError, OSError) as error:
        raise TvmbuildError("without CUPTI a CUDA graph is one row", f"{INSTALL} times its kernels") from error
    module: ModuleType = cupti
    return module
