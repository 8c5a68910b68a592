"""The kinds of devices that targets.yaml may name, one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmbuild.devices.device import Device
from tvmbuild.devices.model_worker import Worker, start_worker
from tvmbuild.devices.qemu.device import open_qemu
from tvmbuild.devices.rpc.device import open_rpc
from tvmbuild.devices.ssh.device import open_ssh
from tvmbuild.devices.watch import Watch
from tvmbuild.errors import TvmbuildError
from tvmbuild.specs import DeviceSpec


def _watch_here(workers: Sequence[Worker]) -> Watch:
    return Watch([worker.pid for worker in workers])


LOCAL = Device("this machine", start_worker, _watch_here)


def _open_local(_spec: DeviceSpec) -> Device:
    return LOCAL


DEVICES: dict[str, Callable[[Any], Device]] = {
    "local": _open_local,
    "rpc": open_rpc,
    "qemu": open_qemu,
    "ssh": open_ssh,
}


def open_device(spec: DeviceSpec) -> Device:
    """Return the device that ``spec`` names; TvmbuildError for one that packages cannot run on."""
    if spec.kind not in DEVICES:
        raise TvmbuildError(
            f"packages do not run on a device of kind {spec.kind}",
            "write `device: none` for the target in targets.yaml; its packages are still built",
        )
    return DEVICES[spec.kind](spec)
