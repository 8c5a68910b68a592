"""The client of a Dask cluster, which asks its workers for their capabilities and runs steps on them."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dask
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError

from tvmbuild import __version__
from tvmbuild.base.capabilities import TOOLS, Capabilities, installed_version
from tvmbuild.base.files import write_bytes
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, Step, TuneStep, has_options
from tvmbuild.cluster.address import check_scheduler, explain_silence
from tvmbuild.cluster.kinds import Amounts
from tvmbuild.cluster.needs import STEPS, explain_lack, list_needs
from tvmbuild.cluster.parcel import Outcome, Parcel, compress, name_of, publish_outputs
from tvmbuild.cluster.remote import describe_machine, run_parcel
from tvmbuild.cluster.side_files import read_sent, take_home
from tvmbuild.engine.executor import OneAtATime
from tvmbuild.engine.outdated_schedule import find_outdated
from tvmbuild.errors import TvmbuildError, VerdictError
from tvmbuild.planning.detection import detect_capabilities

CONNECT_S = 10.0
POLL_S = 2.0
GRACE_S = 15.0
"""The seconds to wait for a suitable worker. A killed worker is back within this time."""
SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": "4GiB",  # a task sends a whole model
}


@contextmanager
def connect(address: str) -> Iterator[Cluster]:
    """Yield the cluster of the scheduler at ``address``.

    Afterwards none of this client's steps runs there, and none of their results is written here. Raises TvmbuildError
    if no scheduler answers.
    """
    check_scheduler(address, "client")
    cpu = detect_capabilities().host_cpu
    for logger in ("distributed", "distributed.client"):  # our one message replaces their warnings
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with dask.config.set(SETTINGS):
        try:
            client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise explain_silence(address, error) from error
        cluster = Cluster(client, address, cpu)
        try:
            yield cluster
        finally:
            cluster.close()


class Cluster:
    """An executor that runs steps on the workers of `tvmbuild worker`. Many threads may use it at once."""

    def __init__(self, client: Client, address: str, cpu: str) -> None:
        self._client = client
        self._address = address
        self._cpu = cpu
        """LLVM's name of this machine's CPU. `device: local` means a worker with this CPU if the target names none."""
        self._topic = f"tvmbuild-{uuid.uuid4().hex}"
        self._here = OneAtATime()
        self._home = threading.Lock()
        """The lock that is held while a step's files are written here."""
        self._tuned: list[Step[TuneStep]] = []
        self._asking = threading.Lock()
        self._asked = float("-inf")
        self._offers: dict[str, dict[str, float]] = {}
        client.subscribe_topic(self._topic, lambda event: print(f"   {event[1]}\n", end="", flush=True))

    @property
    def is_here(self) -> bool:
        """False, because steps run on the workers."""
        return False

    def list_machines(self, commands: Sequence[str]) -> list[Capabilities]:
        """Return the workers' capabilities. ``commands`` are the compilers that targets name as their linker.

        Raises TvmbuildError if there is no worker, or if a worker has other versions of tvmbuild or its tools.
        """
        workers = [address for address, offer in self._list_offers().items() if STEPS in offer]
        if not workers:
            raise TvmbuildError(
                f"the scheduler {self._address} has no worker for tvmbuild",
                f"`tvmbuild worker {self._address}` starts one, on each machine that shall run steps.",
            )
        try:
            answers = self._client.run(describe_machine, tuple(commands), workers=workers)
        except (ImportError, AttributeError) as error:
            raise _explain_mismatch(f"a worker of {self._address}", "another tvmbuild", __version__) from error
        for worker, (version, machine) in answers.items():
            _check_versions(f"the worker {worker}", version, machine)
        return [machine for _, machine in answers.values()]

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:
        """Run the step on a worker with the resources that it needs, and write its files here.

        ``inputs`` are all files that the step reads. A step that needs the user's own environment runs here, one at a
        time. Raises the errors of `run_process`.
        """
        needs = list_needs(step, self._cpu)
        if not needs:
            self._here.run(step)
            return
        sent, paths = read_sent(step), tuple(inputs)
        contents = [self._send(path.read_bytes()) for path in paths]
        parcel = Parcel(step, tuple(name_of(path, step) for path in paths), self._topic)
        outcome = self._wait(needs, parcel, [self._send(compress(sent)), *contents])
        with self._home:
            write_bytes(Layout(step.root).log(step.id), outcome.log)
            take_home(step, sent, outcome)
            if outcome.error is None or isinstance(outcome.error, VerdictError):
                publish_outputs(step, outcome.outputs)
            if outcome.error is not None:
                raise outcome.error
            if has_options(step, TuneStep):
                self._tuned.append(step)

    def is_outdone(self) -> bool:
        """Return whether a tune step's Schedule lost to records that a later step of the same target brought here."""
        never = (replace(step, settings=replace(step.settings, tune="never")) for step in self._tuned)
        return any(find_outdated(step) is not None for step in never)

    def close(self) -> None:
        """Leave the cluster. Our steps there end, and results that still arrive are not written."""
        self._home.acquire()  # never released, because doit's threads may outlive its run
        self._client.close()

    def _send(self, data: bytes) -> Future:
        """Return a Dask task whose result is the data. Any worker can run it, and run it again if the data is lost."""
        return self._client.submit(bytes, data, key=f"tvmbuild-{hashlib.sha256(data).hexdigest()}")

    def _wait(self, needs: Amounts, parcel: Parcel, contents: Sequence[Future]) -> Outcome:
        self._await_worker(needs)
        key, done = f"{parcel.step.id}-{uuid.uuid4().hex}", threading.Event()
        future = self._client.submit(run_parcel, parcel, *contents, key=key, pure=False, resources=needs)
        future.add_done_callback(lambda _: done.set())
        while not done.wait(POLL_S):
            self._await_worker(needs)
        try:
            outcome: Outcome = future.result()
        except KilledWorker as error:
            raise TvmbuildError(
                f"{error.allowed_failures + 1} workers died while they ran it, the last was {error.last_worker.name}",
                "Most likely memory ran out: start workers with fewer --steps.",
            ) from error
        except (FutureCancelledError, OSError) as error:
            raise self._explain_loss() from error
        return outcome

    def _await_worker(self, needs: Amounts) -> None:
        """Wait until a worker offers all of the needed resources.

        Raises TvmbuildError if there is none for GRACE_S seconds.
        """
        end = time.monotonic() + GRACE_S
        while lack := explain_lack(needs, self._list_offers().values()):
            if time.monotonic() > end:
                offers = {name for offer in self._list_offers().values() for name in offer}
                raise TvmbuildError(
                    f"no worker of {self._address} has {lack}",
                    f"`tvmbuild worker {self._address}` offers what its machine has; "
                    f"there is {', '.join(sorted(offers)) or 'no worker'}.",
                )
            time.sleep(POLL_S)

    def _list_offers(self) -> dict[str, dict[str, float]]:
        """Return worker address → resources that it offers. The answer is at most POLL_S seconds old."""
        with self._asking:
            if time.monotonic() - self._asked > POLL_S:
                try:
                    workers = self._client.sync(self._client.scheduler.identity)["workers"]
                except (OSError, AttributeError) as error:  # a closed client has no scheduler
                    raise self._explain_loss() from error
                self._offers = {address: worker["resources"] for address, worker in workers.items()}
                self._asked = time.monotonic()
            return self._offers

    def _explain_loss(self) -> TvmbuildError:
        return TvmbuildError(
            f"the scheduler {self._address} was lost", "Start it and its workers again, then build again."
        )


def _check_versions(worker: str, version: str, machine: Capabilities) -> None:
    """Raise TvmbuildError if the worker has another version of tvmbuild, or of a tool that both machines have.

    The recorded state would then be true on one side only.
    """
    if version != __version__:
        raise _explain_mismatch(worker, f"tvmbuild {version}", __version__)
    for name in TOOLS:
        here, there = installed_version(name), machine.version(name)
        if here != there and None not in {here, there}:
            raise _explain_mismatch(worker, f"{name} {there}", str(here))


def _explain_mismatch(worker: str, theirs: str, ours: str) -> TvmbuildError:
    return TvmbuildError(
        f"{worker} has {theirs}, but this machine has {ours}", "Install the same versions on all machines."
    )
