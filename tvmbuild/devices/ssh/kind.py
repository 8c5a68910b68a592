"""Boards without Python as a kind of device: `device: {ssh: user@host}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import SshDevice
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.kind import Code, DeviceKind
from tvmbuild.devices.ssh.trouble import explain_code, explain_no_runtime

if TYPE_CHECKING:
    from tvmbuild.devices.device import Device  # imports NumPy


class Ssh(DeviceKind[SshDevice]):
    """The kind `ssh`."""

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
        """Return the device of `{ssh: ADDRESS}`."""
        return SshDevice(value)

    def read(self, text: str) -> SshDevice | None:
        """Return the device of `ssh:ADDRESS`; only ssh checks the address."""
        return SshDevice(text) if text else None

    def explain(self, _spec: SshDevice, code: Code, capabilities: Capabilities) -> str | None:
        """Return the reason if these boards do not run the code or have no TVM runtime."""
        machine = machine_of(str(code.cpu.get("mtriple", capabilities.machine)))
        return explain_code(code.kind) or explain_no_runtime(machine)

    def describe_use(self, spec: SshDevice, _target: TargetSpec) -> str:
        """Return the address."""
        return spec.host

    def open(self, spec: SshDevice) -> Device:
        """Return the board, without a connection yet."""
        from tvmbuild.devices.ssh.device import open_ssh  # noqa: PLC0415 - imports NumPy

        return open_ssh(spec)
