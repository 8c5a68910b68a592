"""The kind of device for the machine that runs tvmbuild, and its GPU: `device: local`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.host_cpu import cpu_identity, cpu_name
from tvmbuild.base.loadable import check_loadable
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.kind import Code, Cores, DeviceKind
from tvmbuild.devices.lock import device_lock
from tvmbuild.targets.table import target_kind

if TYPE_CHECKING:
    from tvmbuild.devices.candidate_timer import CandidateTimer  # imports TVM
    from tvmbuild.devices.device import Device  # imports NumPy

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Local(DeviceKind[LocalDevice]):
    """The kind `local` of device. Most methods ask the target's kind, because the target is a CPU or a GPU here."""

    name = "local"
    about = "This machine"
    form = "local"

    def parse(self, _value: Any) -> LocalDevice:
        """Return the device `local`."""
        return LocalDevice()

    def read(self, text: str) -> LocalDevice | None:
        """Return the device `local`, or None if a text follows the name."""
        return None if text else LocalDevice()

    def explain(self, _spec: LocalDevice, code: Code, capabilities: Capabilities) -> str | None:
        """Return why this machine cannot run the code, with the remedy, or None if it can."""
        return target_kind(code.kind).explain_here(code.cpu, capabilities)

    def identify(self, _spec: LocalDevice, kind: str) -> dict[str, str] | None:
        """Return the properties of this machine's CPU and those that the target's kind adds. None if it knows none."""
        more = target_kind(kind).identify()
        return None if more is None else identify_cpu() | more

    def describe_use(self, _spec: LocalDevice, target: TargetSpec) -> str:
        """Return a phrase for the threads or the GPU that the target's packages use."""
        return target_kind(target.kind).describe_here(target)

    def describe_timing(self, _spec: LocalDevice) -> str:
        """Return an empty text, because this machine is the usual place."""
        return ""

    def has_usual_rates(self, kind: str) -> bool:
        """Return whether usual tuning rates apply: the target's code runs on the CPU."""
        return not target_kind(kind).on_gpu

    def frees_cores(self, kind: str) -> bool:
        """Return whether timing a candidate needs none of this machine's cores: the target's kind decides."""
        return target_kind(kind).frees_cores

    def find_device_class(self, _spec: LocalDevice, kind: str, _measured_on: str | None) -> str:
        """Return the name of this machine's CPU or GPU."""
        return target_kind(kind).find_device_class()

    def hold(self, _spec: LocalDevice, kind: str) -> AbstractContextManager[None]:
        """Return a context that holds this machine's lock.

        The lock is shared if timing needs no cores: then the worker that times a candidate locks the card.
        """
        return device_lock(self.name, exclusive=not target_kind(kind).frees_cores)

    def make_timer(self, _spec: LocalDevice, kind: str, _threads: int, cores: Cores) -> CandidateTimer | None:
        """Return the timer of GPU candidates, or None for a CPU target."""
        from tvmbuild.devices.local.timers import make_timer  # noqa: PLC0415 - imports TVM

        check_loadable(Path(tempfile.gettempdir()))
        return make_timer(kind, cores)

    def open(self, _spec: LocalDevice) -> Device:
        """Return this machine as an opened device."""
        from tvmbuild.devices.local.device import LOCAL  # noqa: PLC0415 - imports NumPy

        return LOCAL


def identify_cpu() -> dict[str, str]:
    """Return the properties of this machine's CPU on which latency depends, as name → value."""
    identity = {
        "cpu": cpu_name(),
        "cpu features": hashlib.sha256(cpu_identity().encode()).hexdigest(),
        "cores": str(len(os.sched_getaffinity(0))),
    }
    with contextlib.suppress(OSError):  # no container: no quota
        identity["cpu quota"] = CPU_QUOTA.read_text().strip()
    return identity
