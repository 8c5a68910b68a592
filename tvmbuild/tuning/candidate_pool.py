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
"""The prefix of a candidate's error if the compiler or the linker failed."""
REFUSED = re.compile(r"tvm\.error\.\w+: (?!.*\b(file|space)\b)")
"""A pattern for the last line of a TVM error that refuses a schedule on any machine. It excludes errors about files.
"""


@dataclass(frozen=True)
class Timed:
    """The result of one candidate: its samples in seconds, or the error that left it without samples."""

    samples: tuple[float, ...] = ()
    error: str | None = None

    @property
    def seconds(self) -> float:
        """The median of the samples in seconds, or infinity if the candidate failed."""
        return statistics.median(self.samples) if self.samples else float("inf")


@dataclass(frozen=True)
class Measurement:
    """The results of a batch in the order of its candidates, and the wall seconds of building and timing them."""

    timed: tuple[Timed, ...]
    building: float
    timing: float


@contextmanager
def candidate_pool(target: Any, cores: Cores, timer: CandidateTimer | None = None) -> Iterator[CandidatePool]:
    """Yield a pool. On exit its processes end and its libraries are removed.

    ``timer`` times the candidates. If it is None, the timing cores of this machine time them.
    """
    with tempfile.TemporaryDirectory(prefix="tvmbuild-tune-") as folder:
        pool = CandidatePool(target, cores, Path(folder), timer)
        try:
            yield pool
        finally:
            pool.close()


class CandidatePool:
    """A pool of builder processes, bound to the building ``cores``, and a timer. Libraries are put into ``folder``."""

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
        """End all processes and cancel their work."""
        self._closed = True
        for future in self._builds:
            future.cancel()
        self._builders.shutdown()
        self._timer.close()
        self._turn.shutdown(cancel_futures=True)

    def build(self, candidates: Sequence[Any]) -> list[Future[str]]:
        """Start to compile MeasureCandidates. Return futures of library paths.

        A future raises the error of its build.
        """
        started = [
            self._builders.submit(build_candidate, candidate.sch.mod, self._target, self._next_library(), self._threads)
            for candidate in candidates
        ]
        self._builds = [*(future for future in self._builds if not future.done()), *started]
        return started

    def measure(self, candidates: Sequence[Any], timing: Callable[[], Timing], seen: Seen) -> Future[Measurement]:
        """Build and time the ``candidates``. Return a future of their results.

        Batches are timed in the order of the calls, each after all of its candidates are built. ``timing`` is called
        before each candidate and returns how to time it. ``seen`` gets each result at once, on another thread, and must
        keep or remove the library. If no candidate of a batch could be built, ``seen`` is not called, because the
        machine is at fault.
        """
        built = self.build(candidates)
        return self._turn.submit(self._time_all, candidates, built, timing, seen)

    def time(self, library: str, args_info: Sequence[Any], timing: Timing) -> Timed:
        """Time one library. Return its samples, or the error of its run.

        ``args_info`` describes the arguments of its function. No other code of this pool may use the timing cores
        meanwhile. Raises NoDeviceError if no device is left.
        """
        arguments = tuple(_plain(info.as_json()) for info in args_info)
        try:
            return Timed(tuple(self._timer.time(library, arguments, timing)))
        except NoDeviceError:
            raise
        except Exception as error:  # noqa: BLE001 - a candidate may end its process in any way
            return Timed(error=f"run: {error}")

    def find_fault(self, candidate: Any, workload: Any) -> str | None:
        """Return how the candidate's outputs differ from the workload's outputs, or None if they agree.

        If the candidate fails, return the reason. If the comparison takes too long, return None. Raises NoDeviceError
        if no device is left.
        """
        try:
            return self._compare(candidate, workload)
        except TimeoutError:
            return None  # the workload without a schedule takes too long; the package's numbers are checked later
        except NoDeviceError:
            raise
        except Exception as error:  # noqa: BLE001 - a candidate may end its process in any way
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
"""A callback for a candidate, its result, and the path of its library, or None if it has no library."""


def wait_for_library(future: Future[str]) -> tuple[str | None, str | None]:
    """Return (path of the library, None), or (None, reason why the build failed)."""
    try:
        return future.result(), None
    except TimeoutError:
        return None, f"build: no end within {BUILD_TIMEOUT_S} s"
    except Exception as error:  # noqa: BLE001 - the compiler and the linker may raise any error
        return None, f"{UNBUILT}{error}"


def _machine(target: Any) -> str:
    """Return the machine of the target's triple, or this machine without a triple."""
    triple = str(dict(target.attrs).get("mtriple", platform.machine()))
    machine = machine_of(triple)
    return "arm" if machine.startswith("armv") else machine


def _plain(info: Any) -> Argument:
    _kind, dtype, shape = info
    return str(dtype), tuple(int(extent) for extent in shape)


# The work of the tuner's builders: compile one candidate.


def build_candidate(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile a scheduled module into a shared library at the path ``library``. Return the path.

    ``threads`` is the object file of the packages' thread pool, or None if no kernel runs on the CPU.
    """
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes  # noqa: PLC0415

    removed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return build_library(run_tir_passes(removed, target), target, library, threads)


def build_library(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile a module without further passes into a shared library at the path ``library``. Return the path.

    lld links for all machines, in 0.03 s. ``threads`` is an object file to link, or None.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.codegen.cubin import find_source  # noqa: PLC0415
    from tvmbuild.compiler.codegen.generators import pass_config, use_generators  # noqa: PLC0415
    from tvmbuild.compiler.codegen.link import compile_kernels, tools_here  # noqa: PLC0415

    def link(output: str, objects: list[str], **_options: Any) -> None:
        compile_kernels([Path(each) for each in objects], find_source(built), target, tools_here())
        added = () if threads is None else (threads,)
        subprocess.run([*_linker(), "-shared", "-o", output, *objects, *added], check=True, capture_output=True)

    link.output_format = "so"  # type: ignore[attr-defined]  # export_library asks for it
    with use_generators(target), tvm.transform.PassContext(config=pass_config(target)):
        built = tvm.driver.build(mod, target=target)
        built.export_library(library, fcompile=link)
    return library


def _linker() -> list[str]:
    """Return the command of the bundled lld, or of this machine's linker if ziglang is absent (in a tuning bundle)."""
    spec = importlib.util.find_spec("ziglang")
    return ["ld"] if spec is None or spec.origin is None else [str(Path(spec.origin).parent / "zig"), "ld.lld"]


# Check that a scheduled function computes the same as its Task. TVM's search rarely makes a wrong schedule.


def find_difference(mod: Any, workload: Any, target: Any) -> str | None:
    """Run both functions on the same random inputs. Return how their outputs differ, or None if they agree.

    ``mod`` is the scheduled function, and ``workload`` is the same function without a schedule. This runs in a worker
    process. If the schedule needs weights in another order, the scheduled function reorders them first. Raises an error
    if a function cannot run.
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
    """Return the (dtype, shape) of each argument of a Task's function: inputs and outputs."""
    return tuple((str(each.dtype), tuple(int(extent) for extent in each.shape)) for each in workload["main"].params)
