"""The options of a build that may be at fault, and the build of a part of a model with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tvm
import tvm_ffi

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.benchmarking.frames.gate import check_frames
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pass_manager import PassRun, observe_passes, skip_passes
from tvmbuild.debugging.places import Values
from tvmbuild.devices.device import Device
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.model_worker import Load, Worker
from tvmbuild.package.archive import Package, read_metadata, write_package
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import Schedule


@dataclass(frozen=True)
class Build:
    """The options of a build."""

    target: PackageTarget
    schedule: Schedule
    link: str = "auto"
    skipped: frozenset[str] = frozenset()
    """The names of the compiler's passes that do not run."""
    fuses: bool = True
    """True if operators are fused."""

    @property
    def part_target(self) -> PackageTarget:
        """Return the target for a part, which may lack quantised operators: int8 changes nothing in a model."""
        return replace(self.target, precision="fp32") if self.target.precision == "int8" else self.target

    def make(self, model: bytes, name: str) -> Package:
        """Build the package of a model. Records whose Tasks the model lacks do not apply."""
        options = BuildOptions(name, self.link, partial=True)
        with ExitStack() as stack:
            stack.enter_context(progress_shown_by(lambda _: None))
            stack.enter_context(device_lock("local", exclusive=False))
            stack.enter_context(skip_passes(self.skipped))
            if not self.fuses:
                stack.enter_context(tvm.transform.PassContext(opt_level=0))  # FuseOps takes its level from there
            return build_package(model, self.part_target, self.schedule, options)


@dataclass(frozen=True)
class Bench:
    """A device that computes packages."""

    device: Device
    threads: int

    def run(self, package: Path, inputs: Values) -> dict[str, np.ndarray]:
        """Run a package once and return its outputs by name."""
        with self._start(package, inputs) as worker:
            return worker.outputs()

    @contextmanager
    def _start(self, package: Path, inputs: Values) -> Iterator[Worker]:
        with TemporaryDirectory(prefix="tvmbuild-debug-") as folder, self.device.hold(exclusive=False):
            reference = Path(folder, "inputs.npz")
            write_arrays(reference, {f"input:{name}": value for name, value in inputs.items()})
            with self.device.start(Load("tvm", package, reference, self.threads)) as worker:
                yield worker

    def check_frames(self, package: Path, inputs: Values, who: str) -> str | None:
        """Compare a package's frames and results with plain NumPy, and return the words about it; None: it has none.

        Raises TvmbuildError if they are wrong.
        """
        info = read_metadata(package)
        with self._start(package, inputs) as worker:
            checked = check_frames(info, worker, who, lacks=self.device.lacks_frames(info))
        return None if checked is None else "; ".join((checked.check.describe(), *checked.notes))

    def compute(self, build: Build, model: bytes, inputs: Values) -> dict[str, np.ndarray]:
        """Build a model, run it, and return its outputs. Raises TvmbuildError if it cannot be built or run."""
        package = build.make(model, "part")
        with TemporaryDirectory(prefix="tvmbuild-debug-") as folder:
            path = Path(folder, "part.tar")
            write_package(path, package)
            return self.run(path, inputs)


def make_host_target(precision: Precision, keep: tuple[str, ...] = ()) -> PackageTarget:
    """Return this machine's CPU as a target that computes in a precision, and the nodes ``keep`` in float32."""
    attributes: Attributes = FrozenMap({"mcpu": str(host_target().attrs["mcpu"]), "num-cores": available_cores()})
    return PackageTarget("here", "llvm", attributes, precision=precision, keep=keep)


@contextmanager
def list_passes() -> Iterator[list[str]]:
    """Collect the names of our own passes that change a module inside of the block, in their order."""
    names: list[str] = []

    def observe(ran: PassRun) -> None:
        known = ran.which.is_tvms or ran.which.name in names
        if not known and not tvm_ffi.structural_equal(ran.before, ran.after, map_free_vars=True):
            names.append(ran.which.name)

    with observe_passes(observe):
        yield names


def leave_out(schedule: Schedule, keys: frozenset[str]) -> Schedule:
    """Return the Schedule without the records of these Tasks."""
    return replace(schedule, traces=FrozenMap({key: each for key, each in schedule.traces.items() if key not in keys}))
