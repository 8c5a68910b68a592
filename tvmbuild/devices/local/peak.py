"""Peak rates of this machine's CPU and memory, with which a profile compares the rates of a package's functions.

`python -m tvmbuild.devices.local.peak THREADS` prints them as JSON. It is a separate process, because the libraries
read their number of threads from its environment. The best of several runs counts, because every disturbance makes a
run slower.

- Compute: fused multiply-adds of fp32 vectors that stay in registers, in a kernel that TVM compiles for this CPU. If
  TVM's compiler is not installed, it is NumPy's sgemm, which a good kernel can exceed.
- Memory: NumPy reads an array, or copies it (bytes read and written both count). The array has at least 256 MiB and
  twice the size of the last-level cache, unless memory is short. Data that fits into a cache can move faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from tvmbuild.base.processes import die_with_parent, neutral_folder
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Peak

MEASURE_S = 0.25
"""The approximate time of each measurement, in seconds."""
LIMIT_S = 120.0
_HINT, _NAME = "hint: ", "tvmbuild.errors.TvmbuildError: "
"""The beginning of the last lines that Python writes about our errors."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_MIB = 1 << 20
_LEAST_BYTES = 256 * _MIB
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_THREAD_VARIABLES = ("TVM_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def measure_peak(threads: int) -> Peak:
    """Measure the peak rates with ``threads`` threads in another process, in about two seconds.

    Nothing else should run on the machine meanwhile. Raises TvmbuildError if the process fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TVM_USE_RUNTIME_LIB"}
    environment.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    return measure_in_process("tvmbuild.devices.local.peak", str(threads), environment)


def measure_in_process(module: str, argument: str, environment: Mapping[str, str]) -> Peak:
    """Run the module in another process and return the peak rates that it prints as JSON.

    Raises TvmbuildError if the process fails or takes longer than LIMIT_S.
    """
    command = [sys.executable, "-m", module, argument]
    with neutral_folder() as folder:
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TvmbuildError(f"measuring this machine's peak took longer than {LIMIT_S:g} s") from error
    if done.returncode != 0:
        why, hint = _read_error(done.stderr)
        raise TvmbuildError(f"measuring this machine's peak failed: {why or f'exit code {done.returncode}'}", hint)
    return Peak.from_json(json.loads(done.stdout.splitlines()[-1]))


def _read_error(written: str) -> tuple[str, str | None]:
    """Return the message and the hint of a process that ended with an error."""
    lines = [line for line in written.splitlines() if line.strip()]
    hint = lines.pop().strip().removeprefix(_HINT) if lines and lines[-1].strip().startswith(_HINT) else None
    return (lines[-1].removeprefix(_NAME) if lines else ""), hint


def measure_here(threads: int) -> Peak:
    """Measure the peak rates in this process, whose environment must set the libraries' numbers of threads."""
    gb_s, memory = measure_memory(threads)
    gflops, compute = measure_compute(threads)
    return Peak(gflops, gb_s, threads, compute, memory)


def measure_compute(threads: int) -> tuple[float, str]:
    """Return the peak compute rate in GFLOP/s, and a description of the measurement."""
    import tvm  # noqa: PLC0415, F401 - registers its functions; with its compiler where that is installed
    import tvm_ffi  # noqa: PLC0415

    if tvm_ffi.get_global_func("target.build.llvm", allow_missing=True) is None:
        return _measure_sgemm(), "fp32, NumPy's sgemm (a good kernel can exceed it)"
    from tvmbuild.devices.local.peak_kernel import build_kernels  # noqa: PLC0415 - needs the compiler

    kernels = build_kernels(threads)
    return max(kernel.flops / best_time(kernel.call) / 1e9 for kernel in kernels), "fp32 FMA in registers"


def measure_memory(threads: int) -> tuple[float, str]:
    """Return the peak memory rate in GB/s, and a description of the measurement."""
    size = choose_bytes(last_level_cache_bytes(), psutil.virtual_memory().available)
    array = np.empty(size // 4, np.float32)
    parts = np.array_split(array, 2 * threads)
    sources, sinks = parts[0::2], parts[1::2]

    with ThreadPoolExecutor(threads) as pool:

        def read() -> None:
            list(pool.map(np.max, parts))

        def copy() -> None:
            list(pool.map(lambda pair: np.copyto(pair[1][: pair[0].size], pair[0][: pair[1].size]), pairs))

        pairs = list(zip(sources, sinks, strict=True))
        list(pool.map(lambda part: part.fill(1), parts))  # untouched pages would be read from one page of zeros
        rates = {"read": array.nbytes / best_time(read), "copied": array.nbytes / best_time(copy)}
    kind = max(rates, key=lambda name: rates[name])
    return rates[kind] / 1e9, f"{size // _MIB} MiB {kind}"


def best_time(call: Callable[[], object]) -> float:
    """Return the shortest time of a call in seconds. It is called at least 3 times, for about MEASURE_S seconds.

    A first call before these does not count.
    """
    call()
    end = time.perf_counter() + MEASURE_S
    times: list[float] = []
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def choose_bytes(cache: int, available: int) -> int:
    """Return the size in bytes of an array that fits into no cache, but into the available memory.

    ``cache`` is the size of the largest cache in bytes, and ``available`` that of the available memory.
    """
    return max(_MIB, min(max(2 * cache, _LEAST_BYTES), available // 4))


def last_level_cache_bytes(folder: Path = _CACHES) -> int:
    """Return the size of the largest cache in bytes, or 32 MiB if the system does not provide it.

    ``folder`` is the folder in /sys that describes the caches.
    """
    sizes = []
    for path in folder.glob("index*/size"):
        text = path.read_text().strip()
        number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "")
        if number.isdigit():
            sizes.append(int(number) * _UNITS.get(unit, 1))
    return max(sizes, default=32 * _MIB)


def _measure_sgemm() -> float:
    size = 1536
    left, right = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    result = np.empty_like(left)
    return 2 * size**3 / best_time(lambda: np.matmul(left, right, out=result)) / 1e9


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(measure_here(int(sys.argv[1])).to_json()) + "\n")
