"""The devices on which a target's packages run, as targets.yaml states them. Each kind of device has one class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT


class DeviceSpec:
    """A device on which a target's packages run. Each subclass belongs to one row of `devices/table.py`."""

    kind: ClassVar[str]
    """The key of the device kind's row in `devices/table.py`."""
    is_timed: ClassVar[bool] = False
    """True if the tuner can time candidates on the device. The times of an emulator mean nothing."""


@dataclass(frozen=True)
class NoDevice(DeviceSpec):
    """No device: packages are built and do not run."""

    kind: ClassVar = "none"


@dataclass(frozen=True)
class LocalDevice(DeviceSpec):
    """The machine that runs tvmbuild, or its GPU."""

    kind: ClassVar = "local"
    is_timed: ClassVar = True


@dataclass(frozen=True)
class RpcDevice(DeviceSpec):
    """Boards behind an RPC tracker."""

    kind: ClassVar = "rpc"
    is_timed: ClassVar = True
    tracker: str
    """The tracker's address, host:port."""
    key: str
    """The key under which the boards are registered at the tracker."""
    timeout_s: float = 60.0
    """The time without a sign of life after which a board counts as lost, in seconds."""
    wait_s: float = field(default=600.0, metadata=OMIT_WHEN_DEFAULT)
    """The time limit for waiting until a busy board is free, in seconds."""
    session_s: float = field(default=1800.0, metadata=OMIT_WHEN_DEFAULT)
    """The time after which the board ends a session, in seconds. Otherwise a forgotten session would hold the board."""


@dataclass(frozen=True)
class SshDevice(DeviceSpec):
    """A board without Python that the command ssh reaches."""

    kind: ClassVar = "ssh"
    host: str = field(metadata=OMIT_WHEN_DEFAULT)
    """The destination for the command ssh: user@host, a host name of its configuration, or ssh://host:port."""


@dataclass(frozen=True)
class QemuDevice(DeviceSpec):
    """A board that QEMU emulates on this machine."""

    kind: ClassVar = "qemu"
    arch: str
    """The architecture of the board, as `platform.machine()` returns it there."""
