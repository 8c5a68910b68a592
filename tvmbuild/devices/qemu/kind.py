"""The kind of device for boards that qemu emulates on this machine: `device: {qemu: aarch64}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import QemuDevice
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.kind import Code, DeviceKind
from tvmbuild.devices.qemu.board import ARCHITECTURES, explain_absence, explain_code
from tvmbuild.targets.table import target_kind

if TYPE_CHECKING:
    from tvmbuild.devices.device import Device  # imports NumPy


class Qemu(DeviceKind[QemuDevice]):
    """The kind `qemu` of device: an emulated board."""

    name = "qemu"
    about = "An emulator: right numbers, meaningless times."
    schema: ClassVar[Mapping[str, Any]] = {"enum": list(ARCHITECTURES), "description": "Emulated architecture."}
    form = "qemu:ARCHITECTURE"
    form_note = f", where ARCHITECTURE is {' or '.join(ARCHITECTURES)}"
    no_times = "runs on an emulated board, where times are meaningless"

    def parse(self, value: Any) -> QemuDevice:
        """Return the device of an architecture, from the value of `qemu: ARCHITECTURE` in targets.yaml."""
        return QemuDevice(value)

    def read(self, text: str) -> QemuDevice | None:
        """Return the device of `--device qemu:ARCHITECTURE`, or None if the architecture is unknown."""
        return QemuDevice(text) if text in ARCHITECTURES else None

    def explain(self, spec: QemuDevice, code: Code, capabilities: Capabilities) -> str | None:
        """Return why the code cannot run on the board, or that the board does not exist. None if it can run there."""
        if (reason := explain_code(code.kind)) is not None:
            return reason
        there = machine_of(str(code.cpu.get("mtriple", spec.arch)))
        if there != spec.arch:
            return f"its code is for {there} and the emulated board is {spec.arch}; say `device: none` to build only"
        return None if spec.arch in capabilities.emulators else explain_absence(spec.arch)

    def describe_use(self, _spec: QemuDevice, target: TargetSpec) -> str:
        """Return a phrase for the part of this machine that runs the emulator, for `tvmbuild doctor`."""
        return target_kind(target.kind).describe_here(target)

    def open(self, spec: QemuDevice) -> Device:
        """Return the board as an opened device. Raises TvmbuildError if the board does not exist."""
        from tvmbuild.devices.qemu.device import open_qemu  # noqa: PLC0415 - imports NumPy

        return open_qemu(spec)
