"""Time a package on its own thread pool and on TVM's: undisturbed, and beside a process of the lowest priority.

python benchmarks/thread_pool.py PACKAGE.tar [MODEL.onnx]

Both, and ONNX Runtime if MODEL.onnx (the simplified one, beside its reference.npz) is given, are timed in turns, while
the idle ones are stopped. The company is one process a core that only counts, at `nice 19`, as always on a robot.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tuner_contestants import time_workers

from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.model_worker import Load, Worker, start_worker
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import make_inputs, write_arrays
from tvmbuild.package.metadata import default_threads

SAMPLES = 200
COMPANY_LIMIT_S = 600


def main() -> int:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("model", type=Path, nargs="?")
    args = parser.parse_args()
    info = read_metadata(args.package)
    threads = default_threads(info, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, device_lock("local", exclusive=True):
        inputs = Path(folder, "inputs.npz")
        write_arrays(inputs, {f"input:{name}": value for name, value in make_inputs(info.inputs, "random", 0).items()})
        workers: dict[str, Worker] = {}
        for name, pool in (("TVM's pool", "tvm"), ("own pool", "")):
            with _environment(TVMBUILD_THREAD_POOL=pool):
                workers[name] = stack.enter_context(start_worker(Load("tvm", args.package, inputs, threads)))
        if args.model:
            workers["ONNX Runtime"] = stack.enter_context(
                start_worker(Load("onnxruntime", args.model, inputs, threads))
            )
        for worker in workers.values():
            worker.pause()
        alone = time_workers(workers, SAMPLES)
        with _company(len(os.sched_getaffinity(0))):
            beside = time_workers(workers, SAMPLES)
    table = Table("ms a call", "alone", "beside another", "beside / alone")
    for name in workers:
        ratio = beside[name] / alone[name]
        table.add_row(name, f"{alone[name]:.3f}", f"{beside[name]:.3f}", f"{ratio:.2f}x")
    Console().print(table)
    gains = [found["TVM's pool"] / found["own pool"] for found in (alone, beside)]
    print(
        f"{info.model} for {info.target.name}, {threads} threads: TVM's pool / own pool: "
        f"{gains[0]:.2f}x alone, {gains[1]:.2f}x beside another"
    )
    return 0


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    saved = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@contextmanager
def _company(processes: int) -> Iterator[None]:
    # The alarm ends them if this program was killed.
    counting = f"import signal\nsignal.alarm({COMPANY_LIMIT_S})\nwhile True: pass"
    command = ["nice", "-n", "19", sys.executable, "-c", counting]
    running = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
