"""The devices on which a target's packages run, as targets.yaml names them: one class for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT


class DeviceSpec:
    """A device on which a target's packages run. Each class below is a kind of `devices/table.py`."""

    kind: ClassVar[str]
    """The key of its row there."""
    is_timed: ClassVar[bool] = False
    """Whether candidates can be timed on it. The times of an emulator mean nothing."""


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
    """host:port."""
    key: str
    """The tracker's name of the boards."""
    timeout_s: float = 60.0
    """The time without a sign of life after which a board is lost, in seconds."""
    wait_s: float = field(default=600.0, metadata=OMIT_WHEN_DEFAULT)
    """The time limit for waiting until a busy board is free, in seconds."""
    session_s: float = field(default=1800.0, metadata=OMIT_WHEN_DEFAULT)
    """The time after which the board ends a session, in seconds, so that a forgotten session does not hold it."""


@dataclass(frozen=True)
class SshDevice(DeviceSpec):
    """A board without Python."""

    kind: ClassVar = "ssh"
    host: str = field(metadata=OMIT_WHEN_DEFAULT)
    """The destination for the command ssh: user@host, a name of its configuration, or ssh://host:port."""


@dataclass(frozen=True)
class QemuDevice(DeviceSpec):
    """A board emulated on this machine."""

    kind: ClassVar = "qemu"
    arch: str
    """platform.machine() on the board."""
