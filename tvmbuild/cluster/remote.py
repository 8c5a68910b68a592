"""The worker's side of a step on the cluster: it runs the step in a folder of its own by `run_process`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from distributed import Worker, get_worker

from tvmbuild import __version__
from tvmbuild.base.capabilities import TOOLS, Capabilities
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep
from tvmbuild.cluster.parcel import Files, Outcome, Parcel, decompress, unpack, write_files
from tvmbuild.cluster.side_files import compare
from tvmbuild.engine.leftovers import temporary_folder
from tvmbuild.engine.process import Attendant, run_process
from tvmbuild.errors import TvmbuildError, VerdictError
from tvmbuild.planning.detection import detect_capabilities

INTERVAL_S = 5.0
"""The shortest time between two lines of progress, in seconds."""
COMPILERS = ("llvm", "nvcc", "nvrtc")


class _UnwantedError(Exception):
    """The error that no client waits for the step any more."""


def describe_machine(commands: tuple[str, ...]) -> tuple[str, Capabilities]:
    """Return the worker's version of tvmbuild, and its machine's capabilities."""
    return __version__, detect_capabilities(commands)


def run_parcel(parcel: Parcel, side: bytes, *contents: bytes) -> Outcome:
    """Run the step of the parcel. Return its outcome, which is worthless if the task was cancelled.

    ``side`` are the compressed side files, and ``contents`` are the bytes of the inputs.
    """
    worker, sent = get_worker(), decompress(side)
    try:
        _check_tools(parcel.step, worker.address)
        with temporary_folder() as folder:
            step = unpack(parcel, contents, Path(folder).resolve())
            write_files(step.root, sent)
            return _run(step, parcel.step.root, sent, _attend(worker, parcel))
    except TvmbuildError as error:
        return Outcome(error=error)
    except _UnwantedError:
        return Outcome()


def _run(step: AnyStep, home: Path, sent: Files, attendant: Attendant) -> Outcome:
    error = None
    try:
        run_process(step, attendant)
    except TvmbuildError as raised:
        there, here = str(step.root), str(home)
        kind = VerdictError if isinstance(raised, VerdictError) else TvmbuildError
        error = kind(raised.message.replace(there, here), raised.hint and raised.hint.replace(there, here))
    written = error is None or isinstance(error, VerdictError)
    outputs = {role: path.read_bytes() for role, path in step.outputs.items()} if written else {}
    log = Layout(step.root).log(step.id)
    changed, removed = compare(step, sent)
    return Outcome(outputs, changed, removed, log.read_bytes() if log.exists() else b"", error)


def _attend(worker: Worker, parcel: Parcel) -> Attendant:
    """Return callbacks that report the step's progress to its client, and end the step if no client waits for it.

    Dask itself does not stop a thread.
    """
    key, last = worker.get_current_task(), 0.0

    def show(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= INTERVAL_S:
            last = time.monotonic()
            worker.log_event(parcel.topic, f"{parcel.step.id}  {text}")

    def check() -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state not in {"executing", "long-running"}:
            raise _UnwantedError

    worker.log_event(parcel.topic, f"{parcel.step.id}  on {worker.name}")
    return Attendant(show, check)


def _check_tools(step: AnyStep, address: str) -> None:
    """Raise TvmbuildError unless this machine has the tool versions that are in the step's fingerprint."""
    commands = [name for name in step.tools if name not in {*TOOLS, *COMPILERS}]
    found = list_tools(detect_capabilities(commands))
    for name, version in step.tools.items():
        # A machine may have several versions of NVRTC.
        if version not in found.get(name, "absent").split(", "):
            raise TvmbuildError(
                f"the worker {address} has {name} {found.get(name, 'absent')}, and this build is with {version}",
                "Install the same versions on all machines of the cluster.",
            )


def list_tools(machine: Capabilities) -> Mapping[str, str]:
    """Return tool → version of the machine's tools, by the names that steps use."""
    compilers = {name: getattr(machine, name) or "absent" for name in COMPILERS}
    return {**compilers, **machine.versions, **machine.linkers}
