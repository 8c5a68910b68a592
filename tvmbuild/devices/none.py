"""The kind `none` of device: packages are built and do not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.kind import Code, DeviceKind
from tvmbuild.errors import TvmbuildError

if TYPE_CHECKING:
    from tvmbuild.devices.device import Device  # imports NumPy


class Nowhere(DeviceKind[NoDevice]):
    """The kind `none` of device, for targets whose packages are only built."""

    name = "none"
    about = "nowhere: build only"
    runs = False

    def parse(self, _value: Any) -> NoDevice:
        """Return the device `none`."""
        return NoDevice()

    def explain(self, _spec: NoDevice, _code: Code, _capabilities: Capabilities) -> str | None:
        """Return that the target has no device, with the remedy."""
        return "the target has no device; say `device: {ssh: user@board}`, or `local` where its code runs"

    def describe_use(self, _spec: NoDevice, _target: TargetSpec) -> str:
        """Return `nothing`, because packages do not run."""
        return "nothing"

    def open(self, _spec: NoDevice) -> Device:
        """Raise TvmbuildError, because packages do not run on a device of this kind."""
        raise TvmbuildError(
            f"packages do not run on a device of kind {self.name}",
            "write `device: none` for the target in targets.yaml; its packages are still built",
        )
