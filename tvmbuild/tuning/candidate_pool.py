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
"""The start of a candidate's error if the compiler or the linker refused it."""
REFUSED = re.compile(r"tvm\.error\.\w+: (?!.*\b(file|space)\b)")
"""Matches the last line of an error by which TVM refuses the schedule on any machine."""


@dataclass(frozen=True)
class Timed:
    """One candidate's samples in seconds, or the error that left it without any."""

    samples: tuple[float, ...] = ()
    error: str | None = None

    @property
    def seconds(self) -> float:
        """Median of the samples; infinity when the candidate failed."""
        return statistics.median(self.samples) if self.samples else float("inf")


@dataclass(frozen=True)
class Measurement:
    """A batch's results in the order of its candidates, with the wall seconds spent waiting for builds and timing."""

    timed: tuple[Timed, ...]
    building: float
    timing: float


@contextmanager
def candidate_pool(target: Any, cores: Cores, timer: CandidateTimer | None = None) -> Iterator[CandidatePool]:
    """Yield a pool; on exit its processes end and its libraries are removed.

    ``timer`` times the candidates; if None, the timing cores of this machine do.
    """
    with tempfile.TemporaryDirectory(prefix="tvmbuild-tune-") as folder:
        pool = CandidatePool(target, cores, Path(folder), timer)
        try:
            yield pool
        finally:
            pool.close()


class CandidatePool:
    """Builder processes, bound to their ``cores``, and a timer; libraries are written to ``folder``."""

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
        """End all processes and give up their work."""
        self._closed = True
        for future in self._builds:
            future.cancel()
        self._builders.shutdown()
        self._timer.close()
        self._turn.shutdown(cancel_futures=True)

    def build(self, candidates: Sequence[Any]) -> list[Future[str]]:
        """Start to compile MeasureCandidates; each future returns a library, or raises the reason for its failure."""
        started = [
            self._builders.submit(build_candidate, candidate.sch.mod, self._target, self._next_library(), self._threads)
            for candidate in candidates
        ]
        self._builds = [*(future for future in self._builds if not future.done()), *started]
        return started

    def measure(self, candidates: Sequence[Any], timing: Callable[[], Timing], seen: Seen) -> Future[Measurement]:
        """Build and time the ``candidates``; batches are timed in the order of the calls, each once it is all built.

        ``timing`` is asked before each candidate. ``seen`` gets each result at once, on another thread, with the
        library to keep or remove. If nothing of a batch could be built, ``seen`` is not called, for the machine is at
        fault.
        """
        built = self.build(candidates)
        return self._turn.submit(self._time_all, candidates, built, timing, seen)

    def time(self, library: str, args_info: Sequence[Any], timing: Timing) -> Timed:
        """Time one library; nothing else of this pool may use the timing cores meanwhile."""
        arguments = tuple(_plain(info.as_json()) for info in args_info)
        try:
            return Timed(tuple(self._timer.time(library, arguments, timing)))
        except NoDeviceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the candidate did to its process
            return Timed(error=f"run: {error}")

    def find_fault(self, candidate: Any, workload: Any) -> str | None:
        """Return how the candidate's numbers differ from the workload's, or how its run failed; None if they agree."""
        try:
            return self._compare(candidate, workload)
        except TimeoutError:
            return None  # the workload without a schedule takes too long; the package's numbers are checked later
        except NoDeviceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the candidate did to its process
            return str(error)

    def _compare(self, candidate: Any, workload: Any) -> str | None:
        if not self._remote:
            done: Future[str | None] = self._builders.submit(find_difference, candidate.sch.mod, workload, self._target)
            return done.result()
        # A GPU function without a schedule has no kernels, so the CPU computes the expected numbers.
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
                return None  # its process was ended, which does not make the candidate bad
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
"""A callback that takes a candidate, its result, and its library (None if it has none)."""


def wait_for_library(future: Future[str]) -> tuple[str | None, str | None]:
    """Return (library, None), or (None, the reason why the build failed)."""
    try:
        return future.result(), None
    except TimeoutError:
        return None, f"build: no end within {BUILD_TIMEOUT_S} s"
    except Exception as error:  # noqa: BLE001 - whatever the compiler or the linker said
        return None, f"{UNBUILT}{error}"


def _machine(target: Any) -> str:
    """Return the machine that the target's code runs on; this one's if the target names no triple."""
    triple = str(dict(target.attrs).get("mtriple", platform.machine()))
    machine = machine_of(triple)
    return "arm" if machine.startswith("armv") else machine


def _plain(info: Any) -> Argument:
    _kind, dtype, shape = info
    return str(dtype), tuple(int(extent) for extent in shape)


# The work of the tuner's builders: compile one candidate.


def build_candidate(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile one scheduled module into a shared library at the path ``library``; return the path.

    ``threads`` is the object file of the packages' thread pool; None if nothing runs on the CPU.
    """
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes  # noqa: PLC0415

    removed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return build_library(run_tir_passes(removed, target), target, library, threads)


def build_library(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile a module as it is into a shared library at the path ``library``; return the path.

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
    """Return the command of the bundled lld; of this machine's own linker if a tuning bundle came without ziglang."""
    spec = importlib.util.find_spec("ziglang")
    return ["ld"] if spec is None or spec.origin is None else [str(Path(spec.origin).parent / "zig"), "ld.lld"]


# Check that a scheduled function computes the same as its Task. TVM's search rarely makes one that does not.


def find_difference(mod: Any, workload: Any, target: Any) -> str | None:
    """Run both functions on the same random inputs; return how their outputs differ, None if they agree.

    This runs in a worker process. The workload is compiled without any schedule; if the schedule wants weights in
    another order, they are reordered on the way in. A function that cannot be run raises.
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
    """Return the arguments of a Task's function, inputs and outputs."""
    return tuple((str(each.dtype), tuple(int(extent) for extent in each.shape)) for each in workload["main"].params)
