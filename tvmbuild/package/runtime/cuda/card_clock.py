"""Times of kernels by the card's own clock, also inside a CUDA graph, from NVIDIA's profiling library CUPTI."""

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
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: flush activities even if CUPTI has not finished their records."""
INSTALL = "`pip install 'tvmbuild[cupti]'`"


class CardClock:
    """A recorder of a package's calls by the card's clock. It serves one thread, and a process may have only one.

    Kernels and copies have the times of the card, without waits between them. Other functions compute on the host:
    they have the host's time, and begin after a wait for the card. ``wait`` waits for the card. ``kernels`` has the
    names of the package's kernels, or is None if they are unknown. Raises TvmbuildError if CUPTI is missing or fails.
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
        """Run the model once by ``run_once`` and return the events of the run: the card's first, then the host's."""
        self._flush()
        self._told = []
        host = self._host.run(run_once)
        self._flush()
        self._runs.append(self._told)
        return [*list_events(self._told), *host]

    def note(self, function: object, name: str, before: bool, result: object, *arguments: object) -> None:
        """Record that a call begins (``before``) or has ended. TVM's virtual machine calls this."""
        self._host.note(function, name, before, result, *arguments)

    def finish(self, runs: int) -> GraphTime | None:
        """Stop recording and return the time of the CUDA graphs in the last ``runs`` runs. None without a graph."""
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        return summarize_graph(self._runs[-runs:])

    def _flush(self) -> None:
        self._wait()
        self._cupti.activity_flush_all(_FORCED)

    def _keep(self, records: list[Any]) -> None:
        """Store the activities of CUPTI's records, which CUPTI frees afterwards."""
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
