"""Worker processes that build candidates in parallel and time them one at a time."""

from __future__ import annotations

import importlib.util
import platform
import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.compiler.codegen.link import compile_pool, tools_here
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.devices.candidate_timer import CandidateTimer, LocalTimer, NoDeviceError, start_pool
from tvmbuild.devices.candidates import Argument, Timing, describe_difference, draw_inputs
from tvmbuild.tuning.cores import Cores

BUILD_TIMEOUT_S = 30
UNBUILT = "build failed: "
"""How the error of a candidate begins that the compiler or the linker refused."""
REFUSED = re.compile(r"tvm\.error\.\w+: (?!.*\b(file|space)\b)")
"""The last line of one where TVM refuses the schedule, whatever the machine."""


@dataclass(frozen=True)
class Timed:
    """One candidate's samples in seconds, or why there are none."""

    samples: tuple[float, ...] = ()
    error: str | None = None

    @property
    def seconds(self) -> float:
        """Median of the samples; infinity when the candidate failed."""
        return statistics.median(self.samples) if self.samples else float("inf")


@dataclass(frozen=True)
class Measurement:
    """A batch's results, in the order of its candidates, and the wall seconds of waiting for builds and of timing."""

    timed: tuple[Timed, ...]
    building: float
    timing: float


@contextmanager
def candidate_pool(target: Any, cores: Cores, timer: CandidateTimer | None = None) -> Iterator[CandidatePool]:
    """Yield a pool; on the way out its processes end and its libraries are removed.

    ``timer`` says where candidates are timed: on the timing cores of this machine where there is none.
    """
    with tempfile.TemporaryDirectory(prefix="tvmbuild-tune-") as folder:
        pool = CandidatePool(target, cores, Path(folder), timer)
        try:
            yield pool
        finally:
            pool.close()


class CandidatePool:
    """Builders, bound to their ``cores``, and what times; libraries are written to ``folder``."""

    def __init__(self, target: Any, cores: Cores, folder: Path, timer: CandidateTimer | None = None) -> None:
        self._target = target
        self.folder = folder
        self._builders = start_pool(cores.building, len(cores.building), BUILD_TIMEOUT_S)
        self._remote = timer is not None
        self._timer: CandidateTimer = timer or LocalTimer(cores.timing)
        self._turn = ThreadPoolExecutor(1)
        self._builds: list[Future[str]] = []
        self._made = 0
        self.on_gpu = is_gpu(target)
        threads = folder / "pool.o"
        self._threads = None if self.on_gpu else str(compile_pool(threads, _machine(target), tools_here()))
        self._closed = False

    def close(self) -> None:
        """End all processes; what they were doing is given up."""
        self._closed = True
        for future in self._builds:
            future.cancel()
        self._builders.shutdown()
        self._timer.close()
        self._turn.shutdown(cancel_futures=True)

    def build(self, candidates: Sequence[Any]) -> list[Future[str]]:
        """Start to compile MeasureCandidates; each future answers with a library, or raises why there is none."""
        started = [
            self._builders.submit(build_candidate, candidate.sch.mod, self._target, self._next_library(), self._threads)
            for candidate in candidates
        ]
        self._builds = [*(future for future in self._builds if not future.done()), *started]
        return started

    def measure(self, candidates: Sequence[Any], timing: Callable[[], Timing], seen: Seen) -> Future[Measurement]:
        """Build and time the ``candidates``; batches are timed in the order of the calls, each when it is all built.

        ``timing`` is asked before each candidate; ``seen`` is told each result at once, on another thread, and gets the
        library to keep or remove. Of a batch of which nothing could be built it is told nothing: the fault is the
        machine's.
        """
        built = self.build(candidates)
        return self._turn.submit(self._time_all, candidates, built, timing, seen)

    def time(self, library: str, args_info: Sequence[Any], timing: Timing) -> Timed:
        """Time one library; nothing else of this pool may use the timing cores now."""
        arguments = tuple(_plain(info.as_json()) for info in args_info)
        try:
            return Timed(tuple(self._timer.time(library, arguments, timing)))
        except NoDeviceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the candidate did to its process
            return Timed(error=f"run: {error}")

    def find_fault(self, candidate: Any, workload: Any) -> str | None:
        """Return how the candidate's numbers differ from the workload's, or how running it failed; else None."""
        try:
            return self._compare(candidate, workload)
        except TimeoutError:
            return None  # the workload itself, unscheduled, takes too long: the package's numbers are checked later
        except NoDeviceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the candidate did to its process
            return str(error)

    def _compare(self, candidate: Any, workload: Any) -> str | None:
        if not self._remote:
            done: Future[str | None] = self._builders.submit(find_difference, candidate.sch.mod, workload, self._target)
            return done.result()
        # Without a schedule there are no kernels: what a GPU should compute, the CPU says.
        plain = self._target.host if self.on_gpu else self._target
        want, got = (
            self._builders.submit(build_library, mod, target, self._next_library(), self._threads).result()
            for mod, target in ((workload, plain), (candidate.sch.mod, self._target))
        )
        try:
            return self._timer.compare(want, got, list_arguments(workload))
        finally:
            Path(want).unlink(missing_ok=True)
            Path(got).unlink(missing_ok=True)

    def _time_all(
        self, candidates: Sequence[Any], built: list[Future[str]], timing: Callable[[], Timing], seen: Seen
    ) -> Measurement:
        start = time.monotonic()
        libraries = [wait_for_library(future) for future in built]
        all_built = time.monotonic()
        if all((error or "").startswith(UNBUILT) for _, error in libraries):
            return Measurement(tuple(Timed(error=error) for _, error in libraries), all_built - start, 0.0)
        lock = threading.Lock()

        def run(candidate: Any, built_one: tuple[str | None, str | None]) -> Timed | None:
            library, error = built_one
            timed = Timed(error=error)
            if library is not None:
                with lock:
                    how = timing()
                timed = self.time(library, candidate.args_info, how)
            if self._closed and not timed.samples:
                return None  # its process was ended, which says nothing about the candidate
            with lock:
                seen(candidate, timed, library)
            return timed

        with ThreadPoolExecutor(self._timer.width) as threads:
            results = list(threads.map(run, candidates, libraries))
        timed = tuple(result for result in results if result is not None)
        return Measurement(timed, all_built - start, time.monotonic() - all_built)

    def _next_library(self) -> str:
        self._made += 1
        return str(self.folder / f"{self._made}.so")


Seen = Callable[[Any, Timed, str | None], None]
"""(candidate, its result, its library or None where there is none)."""


def wait_for_library(future: Future[str]) -> tuple[str | None, str | None]:
    """Return (library, None), or (None, why it could not be built)."""
    try:
        return future.result(), None
    except TimeoutError:
        return None, f"build: no end within {BUILD_TIMEOUT_S} s"
    except Exception as error:  # noqa: BLE001 - whatever the compiler or the linker said
        return None, f"{UNBUILT}{error}"


def _machine(target: Any) -> str:
    """Return the machine whose code the target generates: this one's where it names no triple."""
    triple = str(dict(target.attrs).get("mtriple", platform.machine()))
    machine = machine_of(triple)
    return "arm" if machine.startswith("armv") else machine


def _plain(info: Any) -> Argument:
    _kind, dtype, shape = info
    return str(dtype), tuple(int(extent) for extent in shape)


# What the tuner's builders do: compile one candidate.


def build_candidate(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile one scheduled module into the shared library at that path; return the path.

    ``threads`` is the object file of the thread pool that packages have; None: nothing runs on the CPU.
    """
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes  # noqa: PLC0415

    removed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return build_library(run_tir_passes(removed, target), target, library, threads)


def build_library(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile a module as it is into the shared library at that path; return the path.

    lld links for every machine alike, in 0.03 s.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.codegen.generators import pass_config, use_generators  # noqa: PLC0415

    def link(output: str, objects: list[str], **_options: Any) -> None:
        added = () if threads is None else (threads,)
        subprocess.run([*_linker(), "-shared", "-o", output, *objects, *added], check=True, capture_output=True)

    link.output_format = "so"  # type: ignore[attr-defined]  # export_library asks for it
    with use_generators(target), tvm.transform.PassContext(config=pass_config(target)):
        tvm.driver.build(mod, target=target).export_library(library, fcompile=link)
    return library


def _linker() -> list[str]:
    """Return the bundled lld; where a tuning bundle came without ziglang, this machine's own linker does."""
    spec = importlib.util.find_spec("ziglang")
    return ["ld"] if spec is None or spec.origin is None else [str(Path(spec.origin).parent / "zig"), "ld.lld"]


# Does a scheduled function compute what its Task does? TVM's search makes some, rarely, that do not.


def find_difference(mod: Any, workload: Any, target: Any) -> str | None:
    """Run both on the same random inputs; return how they differ, None when they do not.

    Runs in a worker process. The workload is compiled as it is, without any schedule; weights that the schedule wants
    in another order are put into it on the way. A function that cannot be run raises.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.codegen.prepare import prepare_compiler  # noqa: PLC0415
    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes  # noqa: PLC0415

    prepare_compiler()
    inputs = draw_inputs(list_arguments(workload))
    results = []
    for each in (workload, run_tir_passes(mod, target)):
        tensors = [tvm.runtime.tensor(value) for value in inputs]
        tvm.compile(each, target=target)["main"](*tensors)
        results.append([tensor.numpy() for tensor in tensors])
    return describe_difference(*results)


def list_arguments(workload: Any) -> tuple[Argument, ...]:
    """Return what a Task's function takes, inputs and outputs."""
    return tuple((str(each.dtype), tuple(int(extent) for extent in each.shape)) for each in workload["main"].params)
