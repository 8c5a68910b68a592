"""Where `tvmbuild run` runs a package: --device."""

from __future__ import annotations

import argparse

from tvmbuild.devices.device import Device
from tvmbuild.devices.qemu.board import ARCHITECTURES
from tvmbuild.devices.table import open_device
from tvmbuild.errors import TvmbuildError
from tvmbuild.host_cpu import available_cores
from tvmbuild.nearest import find_nearest, suggest
from tvmbuild.package.metadata import PackageInfo, default_threads
from tvmbuild.specs import DeviceSpec, LocalDevice, QemuDevice, RpcDevice, SshDevice

FORMS = {"local": "local", "rpc": "rpc:HOST:PORT/KEY", "qemu": "qemu:ARCHITECTURE", "ssh": "ssh:USER@HOST"}
"""How each kind of devices is written; in targets.yaml the same is said."""
_MANY_CORES = 1024


def find_device(text: str) -> Device:
    """Return the device that --device names; TvmbuildError for what is none."""
    kind, _, rest = text.partition(":")
    if kind not in FORMS:
        suggestion = suggest(find_nearest(kind, FORMS))
        raise TvmbuildError(f"--device {text}: no such device", f"{suggestion}There is {', '.join(FORMS.values())}")
    return open_device(_read(kind, rest, text))


def _read(kind: str, rest: str, text: str) -> DeviceSpec:
    if kind == "rpc":
        tracker, _, key = rest.partition("/")
        host, _, port = tracker.rpartition(":")
        if host and port.isdigit() and key:
            return RpcDevice(tracker, key)
    elif kind == "qemu" and rest in ARCHITECTURES:
        return QemuDevice(rest)
    elif kind == "ssh" and rest:
        return SshDevice(rest)
    elif kind == "local" and not rest:
        return LocalDevice()
    names = f", where ARCHITECTURE is {' or '.join(ARCHITECTURES)}" if kind == "qemu" else ""
    raise TvmbuildError(f"--device {text} is not {FORMS[kind]}", f"write --device {FORMS[kind]}{names}")


def check_wishes(device: Device, args: argparse.Namespace) -> None:
    """Raise TvmbuildError for what is to be measured and cannot be on this device."""
    if device.emulated and (args.print_time or args.profile or args.profile_json):
        raise TvmbuildError(f"{device.name} has no times that mean anything", "leave --print-time and --profile out")
    if not device.profiles and (args.profile or args.profile_json):
        raise TvmbuildError(
            f"{device.name} tells no times of operators: it has no Python", "leave --profile out; --print-time works"
        )


def choose_threads(device: Device, info: PackageInfo) -> int:
    """Return the cores that the package was tuned for, as far as they are here; a board says where it has fewer."""
    return default_threads(info, available_cores() if device.here else _MANY_CORES)
