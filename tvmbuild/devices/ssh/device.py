"""A board without Python as an opened device: `device: {ssh: user@host}`.

The package and a C++ program that runs it are copied to the board.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tvmbuild.base.device_specs import SshDevice
from tvmbuild.base.progress import report_progress
from tvmbuild.devices.device import Device
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.model_worker import Load, Worker, describe_load, run_worker
from tvmbuild.devices.rpc.device import BoardWatch
from tvmbuild.devices.ssh.frames import explain_lack
from tvmbuild.devices.ssh.program import find_files, machine_of_package
from tvmbuild.package.archive import read_metadata


def open_ssh(spec: SshDevice) -> Device:
    """Return the board that ``spec`` describes as a device. No connection is opened yet."""
    return Device(
        spec.host,
        partial(start_by_ssh, spec.host),
        BoardWatch,
        here=False,
        profiles=False,
        lacks_frames=explain_lack,
    )


@contextmanager
def start_by_ssh(host: str, load: Load) -> Iterator[Worker]:
    """Load a package on the board and yield its worker. The board's lock is held until the context ends.

    Raises TvmbuildError if the board cannot be reached or cannot run the package.
    """
    with device_lock(re.sub(r"[^A-Za-z0-9.-]+", "-", f"ssh-{host}"), exclusive=True):
        info = read_metadata(load.model)
        find_files(machine_of_package(info), info.target.kind)  # in this process, because it shows its progress
        report_progress(f"copying the package to {host}")
        command = [sys.executable, "-m", "tvmbuild.devices.ssh.relay", *describe_load(load), host]
        with run_worker(load, command, {}) as worker:
            yield worker
