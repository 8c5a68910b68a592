"""Where packages of a target run, as targets.yaml says it: a class a kind, each with only its own fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT


class DeviceSpec:
    """Where packages of a target run: one of the classes below, a kind of `devices/table.py` each."""

    kind: ClassVar[str]
    """Its row there."""
    is_timed: ClassVar[bool] = False
    """Whether candidates can be timed on it: what an emulator takes means nothing."""


@dataclass(frozen=True)
class NoDevice(DeviceSpec):
    """Packages are built and run nowhere."""

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
    """What the tracker calls the boards."""
    timeout_s: float = 60.0
    """A board that gives no sign of life for so long is lost."""
    wait_s: float = field(default=600.0, metadata=OMIT_WHEN_DEFAULT)
    """So long a busy one is waited for."""
    session_s: float = field(default=1800.0, metadata=OMIT_WHEN_DEFAULT)
    """After so long a session ends, were it forgotten."""


@dataclass(frozen=True)
class SshDevice(DeviceSpec):
    """A board without Python."""

    kind: ClassVar = "ssh"
    host: str = field(metadata=OMIT_WHEN_DEFAULT)
    """What the command ssh is told: user@host, a name of its configuration, or ssh://host:port."""


@dataclass(frozen=True)
class QemuDevice(DeviceSpec):
    """A board emulated on this machine."""

    kind: ClassVar = "qemu"
    arch: str
    """platform.machine() there."""
