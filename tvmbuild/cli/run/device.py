"""Where `tvmbuild run` runs a package: --device."""

from __future__ import annotations

import argparse

from tvmbuild.base.host_cpu import available_cores
from tvmbuild.devices.device import Device
from tvmbuild.devices.table import open_device, read_device
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo, default_threads

_MANY_CORES = 1024


def find_device(text: str) -> Device:
    """Return the device that --device names; TvmbuildError for what is none."""
    return open_device(read_device(text))


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
