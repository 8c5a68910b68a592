"""One package timed in turns with others: the common part of the benchmark stage and `tvmbuild bench`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.cuda_versions import choose_driver, read_version
from tvmbuild.base.files import canonical_json, sha256_file
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import BenchmarkOptions, Tolerance
from tvmbuild.benchmarking.accuracy import Judge
from tvmbuild.benchmarking.baselines import Contender, Contest, prepare_baseline, prepare_package
from tvmbuild.benchmarking.frames.contest import FrameTask, finish_frames, prepare_frames
from tvmbuild.benchmarking.measure import Measured, measure_in_turns
from tvmbuild.benchmarking.results import Absent, Product, Result, Rival
from tvmbuild.benchmarking.statistics import estimate_ratio, summarize
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.device import Device
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.devices.model_worker import Load, Worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_package
from tvmbuild.package.metadata import PackageInfo, default_threads
from tvmbuild.package.profile import Profile
from tvmbuild.preparing.compare import Comparison
from tvmbuild.preparing.reference import Reference, explain_difference, make_inputs, read_reference, write_reference
from tvmbuild.preparing.specials import find_special_problem

OURS = "tvm"
"""The name of the package itself among the contenders."""
ATTEMPTS = 3
"""The number of attempts on a device that goes away in the middle."""
NOT_PROFILED = Profile((), "host")
PROFILED, MIN_PROFILED, PROFILE_S = 20, 3, 5.0
"""The number of runs that time operators: as many as fit the time in seconds, between the least and the most."""


@dataclass(frozen=True)
class Trial:
    """A benchmark task: a package, the inputs and outputs that it must reproduce, and the runtimes timed beside it."""

    subject: str
    """The cell's name, or the package's."""
    package: Path
    model: Path | None
    reference: Path
    threads: int
    tolerance: Tolerance
    options: BenchmarkOptions
    packages: tuple[Path, ...] = ()
    """Other packages of the same model, timed in turns with this one."""
    device: Device = LOCAL
    judge: Judge | None = None
    """The comparison of the package with the original model on real inputs, or None without real inputs."""
    times_frames: bool = True
    """True if frames are timed, and not only compared."""

    @property
    def baselines(self) -> tuple[str, ...]:
        """Return the baselines that can be timed in turns with the package: only on this machine."""
        return self.options.baselines if self.model is not None and self.device.is_this_machine else ()

    def at(self, size: str, model: Path | None, reference: Path) -> Trial:
        """Return the benchmark task of another size of the package, with the files of this size."""
        subject = f"{self.subject} at {size}"
        return replace(self, subject=subject, model=model, reference=reference, judge=None, times_frames=False)

    def describe_frames(self, info: PackageInfo, stage: str = "benchmark") -> FrameTask:
        """Return the task of the package's frames. The usual way is timed where ONNX Runtime is a baseline."""
        model = self.model if self.times_frames and "onnxruntime" in self.baselines else None
        if info.sizes is not None:
            info = info.at_inputs({name: each.shape for name, each in read_reference(self.reference).inputs.items()})
        return FrameTask(f"{stage}:{self.subject}", info, self.package, model, self.reference, self.device)


@dataclass
class _Field:
    """The contenders whose processes run, paused, and the messages about the others."""

    contenders: dict[str, Contender]
    workers: dict[str, Worker]
    absent: list[Absent]
    warnings: list[str]


def run_contest(trial: Trial, attempts: int = ATTEMPTS) -> Result:
    """Check the package's numbers and time it. Raises TvmbuildError if they are wrong, or if the package cannot run.

    If a baseline cannot be measured, the result gives the reason. If another package cannot be measured, that is an
    error. If the device goes away in the middle, everything is repeated.
    """
    if trial.device.emulated:
        raise TvmbuildError(f"{trial.subject} runs on {trial.device.name}, where times are meaningless")
    try:
        return _run_once(trial)
    except DeviceLostError as error:
        if attempts == 1:
            raise
        report_progress(f"{error.message}; once more from the beginning")
    return run_contest(trial, attempts - 1)


def _run_once(trial: Trial) -> Result:
    report_progress("loading the package")
    device, info = trial.device, read_package(trial.package).info
    contest = Contest(info, Load("tvm", trial.package, trial.reference, trial.threads), trial.model)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tvmbuild-benchmark-")))
        field = _Field({}, {}, [], [])
        for name in trial.baselines:
            _prepare(field, name, contest, folder)
        field.contenders |= {str(path): prepare_package(path, contest) for path in trial.packages}
        with device.hold(exclusive=False):
            ours = stack.enter_context(device.start(contest.load))
            of_call = ours.call_memory() if device.tells_call_memory(info) else None
            comparison = check_numbers(trial, ours)
            agreement = trial.judge(ours.run) if trial.judge else None
            frames = prepare_frames(trial.describe_frames(info), ours, stack, folder)
            ours.pause()  # it may wait long, and must not disturb the timing of others
            _start_others(trial, field, stack)
        with device.hold(exclusive=True):
            options, workers = trial.options, {OURS: ours, **field.workers}
            watch = device.watch(tuple(workers.values()))
            measured = measure_in_turns(workers, options.number, options.repeat, watch)
            latency = summarize(measured.samples[OURS])
            ours.resume()
            memory = ours.peak_memory_mb()
            profile = _profile(ours, latency.median.value) if device.profiles else NOT_PROFILED
            framed = finish_frames(frames, options.repeat) if frames is not None and trial.times_frames else None
    return Result(
        cell=trial.subject,
        product=describe_product(trial.package, info),
        threads=ours.threads,
        latency=latency,
        rivals=_list_rivals(field, measured),
        absent=tuple(field.absent),
        machine=measured.machine,
        max_abs_error=comparison.max_abs_error,
        max_rel_error=comparison.max_rel_error,
        peak_memory_mb=None if memory is None else round(memory, 1),
        call_memory_mb=None if of_call is None else round(of_call / 2**20, 2),
        warnings=(*comparison.list_warnings(), *_list_warnings(field, measured), *profile.remarks),
        operators=profile.rows,
        accuracy=agreement,
        frames=framed,
    )


def _profile(ours: Worker, call_ms: float) -> Profile:
    """Return the time of each operator, over fewer runs for a slow model."""
    report_progress("timing the operators")
    return ours.profile(max(MIN_PROFILED, min(PROFILED, int(PROFILE_S * 1000 / call_ms))))


def _prepare(field: _Field, name: str, contest: Contest, folder: Path) -> None:
    try:
        field.contenders[name] = prepare_baseline(name, contest, folder)
    except TvmbuildError as error:
        field.absent.append(Absent(name, _reason(error)))


def check_numbers(trial: Trial, worker: Worker, stage: str = "benchmark") -> Comparison:
    """Compare the outputs with the reference's, also for special inputs. Raises TvmbuildError in the stage's name."""
    report_progress("comparing the outputs with the reference")
    reference = read_reference(trial.reference)
    comparison = reference.compare(worker.outputs(), trial.tolerance)
    if comparison.problem is not None:
        raise TvmbuildError(
            f"{stage}:{trial.subject}: the package computes wrong numbers: {comparison.problem}",
            explain_difference(comparison, reference, trial.subject),
        )
    problem = find_special_problem(reference, worker.run, reference.allow(trial.tolerance))
    if problem is not None:
        raise TvmbuildError(
            f"{stage}:{trial.subject}: with zeros, infinities and NaN among the inputs the package computes "
            f"wrong numbers: {problem}",
            "an operator of the model treats these values differently: rewrite or replace it",
        )
    return comparison


def _start_others(trial: Trial, field: _Field, stack: ExitStack) -> None:
    """Start the contenders, check their numbers too, and leave them paused."""
    reference = read_reference(trial.reference)
    want = reference.outputs
    for name, contender in tuple(field.contenders.items()):
        report_progress(f"loading {name}")
        try:
            worker = stack.enter_context(trial.device.start(contender.load))
            got = worker.outputs()
        except TvmbuildError as error:
            if contender.load.model in trial.packages:
                raise
            del field.contenders[name]
            field.absent.append(Absent(name, _reason(error)))
            continue
        worker.pause()
        field.workers[name] = worker
        problem = reference.compare({key: got[key] for key in want if key in got}, trial.tolerance).problem
        if problem is not None:
            field.warnings.append(f"{name} computes other numbers: {problem}")


def _list_rivals(field: _Field, measured: Measured) -> tuple[Rival, ...]:
    ours = measured.samples[OURS]
    return tuple(
        Rival(name, contender.version, summarize(theirs), estimate_ratio(ours, theirs))
        for name, contender in field.contenders.items()
        for theirs in (measured.samples[name],)
    )


def _list_warnings(field: _Field, measured: Measured) -> tuple[str, ...]:
    unsteady = (f"the calls of {name} did not become steady" for name in measured.unsteady)
    busy = (measured.machine.busy,) if measured.machine.busy else ()
    return (*busy, *unsteady, *field.warnings)


def describe_product(package: Path, info: PackageInfo) -> Product:
    """Return the identity of the package that ran."""
    target = info.target
    reduced = [] if target.precision == "fp32" else [target.precision]
    attributes = dict(target.attributes)
    if target.kind == "cuda" and "driver" in attributes:
        stated = attributes.pop("driver")
        if read_version(str(stated)) != choose_driver(attributes):  # entries of older releases state none
            attributes["driver"] = stated
    seen = canonical_json([target.kind, attributes, target.host, *reduced])
    return Product(
        target=target.name,
        target_digest=hashlib.sha256(seen.encode()).hexdigest()[:16],
        sha256=sha256_file(package),
        size=package.stat().st_size,
        tasks=info.coverage.tasks,
        covered=info.coverage.covered,
    )


def _reason(error: TvmbuildError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def make_package_trial(
    package: Path,
    others: tuple[Path, ...],
    folder: Path,
    *,
    threads: int | None = None,
    size: Mapping[str, int] | None = None,
) -> Trial:
    """Return the benchmark task of a package without a project. ``folder`` gets its random inputs.

    The package's own outputs are the reference that the others must reproduce. The default of ``threads`` is the number
    that the package was tuned for, at most this machine's cores; that of ``size`` is the largest.
    """
    info = read_package(package).info
    if size is not None:
        info = info.at_values(size)
    threads = threads or default_threads(info, available_cores())
    inputs, path = make_inputs(info.inputs, (), 0), folder / "reference.npz"
    write_reference(path, Reference(inputs, {}))
    with LOCAL.hold(exclusive=False), LOCAL.start(Load("tvm", package, path, threads)) as worker:
        write_reference(path, Reference(inputs, worker.outputs()))
    return Trial(package.name, package, None, path, threads, Tolerance(), BenchmarkOptions(), others)
