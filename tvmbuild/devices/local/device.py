"""The machine that runs tvmbuild as an opened device, `LOCAL`."""

from __future__ import annotations

from collections.abc import Sequence

from tvmbuild.devices.device import Device
from tvmbuild.devices.model_worker import Worker, start_worker
from tvmbuild.devices.watch import Watch


def _watch_here(workers: Sequence[Worker]) -> Watch:
    return Watch([worker.pid for worker in workers])


LOCAL = Device("this machine", start_worker, _watch_here)
