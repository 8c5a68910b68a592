"""The table of the kinds of devices that targets.yaml may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.devices.kind import DeviceKind
from tvmbuild.devices.local.kind import Local
from tvmbuild.devices.none import Nowhere
from tvmbuild.devices.qemu.kind import Qemu
from tvmbuild.devices.rpc.kind import Rpc
from tvmbuild.devices.ssh.kind import Ssh
from tvmbuild.errors import TvmbuildError

if TYPE_CHECKING:
    from tvmbuild.devices.device import Device  # imports NumPy

DEVICES: dict[str, DeviceKind[Any]] = {
    "local": Local(),
    "none": Nowhere(),
    "rpc": Rpc(),
    "qemu": Qemu(),
    "ssh": Ssh(),
}


def device_kind(spec: DeviceSpec) -> DeviceKind[Any]:
    """Return the kind of the device that ``spec`` describes."""
    return DEVICES[spec.kind]


def parse_device(data: str | dict[str, Any]) -> DeviceSpec:
    """Return the device that an entry `device:` of targets.yaml describes. ``data`` must conform to the schema."""
    name, value = (data, None) if isinstance(data, str) else next(iter(data.items()))
    spec: DeviceSpec = DEVICES[name].parse(value)
    return spec


def list_forms() -> list[str]:
    """Return the syntax of each kind that `--device` accepts."""
    return [kind.form for kind in DEVICES.values() if kind.form is not None]


def read_device(text: str) -> DeviceSpec:
    """Return the device that the value of `--device` describes. Raises TvmbuildError if the text is invalid."""
    forms = {name: kind.form for name, kind in DEVICES.items() if kind.form is not None}
    name, _, rest = text.partition(":")
    if name not in forms:
        suggestion = suggest(find_nearest(name, forms))
        raise TvmbuildError(f"--device {text}: no such device", f"{suggestion}There is {', '.join(forms.values())}")
    spec: DeviceSpec | None = DEVICES[name].read(rest)
    if spec is None:
        form = f"--device {forms[name]}"
        raise TvmbuildError(f"--device {text} is not {forms[name]}", f"write {form}{DEVICES[name].form_note}")
    return spec


def open_device(spec: DeviceSpec) -> Device:
    """Return the device that ``spec`` describes, ready to run packages.

    Raises TvmbuildError if packages cannot run on it.
    """
    return device_kind(spec).open(spec)
