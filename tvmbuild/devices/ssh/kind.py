"""The kind of device for boards without Python: `device: {ssh: user@host}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import SshDevice
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.kind import Code, DeviceKind
from tvmbuild.devices.ssh.trouble import explain_no_runtime

if TYPE_CHECKING:
    from tvmbuild.devices.device import Device  # imports NumPy


class Ssh(DeviceKind[SshDevice]):
    """The kind `ssh` of device: a board without Python, which the command ssh reaches."""

    name = "ssh"
    about = "A board without Python, behind ssh."
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "string",
        "description": "What the command ssh is told: user@host, a Host of ~/.ssh/config, or ssh://host:port.",
        "pattern": "^(ssh://)?([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_\\[][A-Za-z0-9_.:\\[\\]-]*$",
        "patternErrorMessage": "user@host, a Host of ~/.ssh/config, or ssh://host:port",
    }
    form = "ssh:USER@HOST"

    def parse(self, value: Any) -> SshDevice:
        """Return the device of the address in `ssh: ADDRESS` of targets.yaml."""
        return SshDevice(value)

    def read(self, text: str) -> SshDevice | None:
        """Return the device of `--device ssh:ADDRESS`, or None if the address is empty. Only ssh itself checks it."""
        return SshDevice(text) if text else None

    def explain(self, _spec: SshDevice, code: Code, capabilities: Capabilities) -> str | None:
        """Return why boards without Python cannot run the code, with the remedy, or None if they can."""
        machine = machine_of(str(code.cpu.get("mtriple", capabilities.machine)))
        return explain_no_runtime(machine)

    def describe_use(self, spec: SshDevice, _target: TargetSpec) -> str:
        """Return the board's address."""
        return spec.host

    def open(self, spec: SshDevice) -> Device:
        """Return the board as an opened device. No connection is opened yet."""
        from tvmbuild.devices.ssh.device import open_ssh  # noqa: PLC0415 - imports NumPy

        return open_ssh(spec)
