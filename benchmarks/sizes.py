"""Time a package with sizes against packages of one size each, and a peer that takes any size.

python benchmarks/sizes.py PROJECT/build/cells/MODEL@TARGET PEER [--from 5 --to 256 --draws 12 --letter T]
                           [--cpp …/bin/bench_model] [--threads 2] [--rounds 15]

PEER is the original ONNX file, which ONNX Runtime runs on the CPU for every target, also for lavapipe; or
FILE.py:FUNCTION, which returns the network as a PyTorch module, which takes the package's inputs by name.
PyTorch runs it eagerly on the CUDA card (`networks/made/bert.py:make_minilm` is a text encoder of MiniLM's sizes).

The cell must be built, because its folder `parts` has a package of each size. Each contender is a process of
its own; they are timed in turns, while the others are stopped. A call is `session.run`, with padding, cutting and
copies of the outputs, or the peer's, from NumPy's arrays to NumPy's arrays. ONNX Runtime and lavapipe have as many
threads as CPU packages. With --cpp, C++'s `bench_model` also times both packages of each size; for Vulkan, set
TVMBUILD_VULKAN_LIBRARY to the path that `tvmbuild config --vulkan` prints.
The inputs are ids below 30000 and a mask of ones, or floats. Of a CUDA package nvidia-smi tells the card's memory.
With --letter, lengths between --from and --to are drawn, too. Needs an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import runpy
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tvmbuild.base.size_specs import fill_shape
from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.devices.process_memory import peak_memory_mb
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import PackageInfo

ROUND_S = 0.15
"""The time of a contender's turn, in seconds; at least one call."""
VOCABULARY = 30_000


@dataclass
class Contender:
    """A process that runs a package or the peer."""

    process: subprocess.Popen[str]
    on_card: bool = False

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer. The process is stopped before and after."""
        os.kill(self.process.pid, signal.SIGCONT)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        os.kill(self.process.pid, signal.SIGSTOP)
        return answer

    def tell_memory(self) -> str:
        """Return the process's peak memory, and its memory on the card if it uses one, both in MiB."""
        told = f"{self.ask({})['peak_mb']:.0f}"
        if self.on_card:
            command = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
            found = [used for pid, _, used in (line.partition(", ") for line in lines) if pid == str(self.process.pid)]
            told += f" (on the card {', '.join(found) or 'unknown'})"
        return told


@dataclass(frozen=True)
class Turns:
    """The number of rounds, in which each contender has a turn, and the library that runs the peer."""

    rounds: int
    peer: str

    def time(self, asked: Sequence[tuple[Contender, Mapping[str, Any]]]) -> list[float]:
        """Return the median over the rounds of each contender's median call, in ms."""
        times: list[list[float]] = [[] for _ in asked]
        for index in range(self.rounds):
            order = list(enumerate(asked))[:: 1 if index % 2 == 0 else -1]
            for place, (contender, request) in order:
                times[place].append(contender.ask(request)["ms"])
        return [statistics.median(each) for each in times]


def main() -> int:
    """Time and print, or serve a contender."""
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cell", type=Path)
    parser.add_argument("peer", metavar="ORIGINAL.onnx|FILE.py:FUNCTION")
    parser.add_argument("--letter")
    parser.add_argument("--from", type=int, default=5, dest="least")
    parser.add_argument("--to", type=int, default=256, dest="most")
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpp", type=Path, metavar="BENCH_MODEL", help="the installed program")
    args = parser.parse_args()
    (package,) = args.cell.glob("*.tar")
    info = read_metadata(package)
    print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB; {info.target.kind}, {count(args.threads, 'thread')}")
    with ExitStack() as stack:
        starter = Starter(stack, info, args.threads)
        whole, peer = starter.start(str(package)), starter.start(args.peer)
        turns = Turns(args.rounds, "ONNX Runtime" if args.peer.endswith(".onnx") else "PyTorch")
        show_sizes(args.cell, starter, (whole, peer), (turns, Cpp(args.cpp, package, args.threads)))
        if args.letter:
            show_draws(args, info, (whole, peer), turns)
        print(f"peak memory in MiB: with all sizes {whole.tell_memory()}, {turns.peer} {peer.tell_memory()}")
    return 0


@dataclass(frozen=True)
class Starter:
    """The facts that all contenders share."""

    stack: ExitStack
    info: PackageInfo
    threads: int

    def start(self, model: str) -> Contender:
        """Start a contender, which ends with the stack."""
        told = json.dumps([[each.name, each.dtype] for each in self.info.inputs])
        threads = str(self.threads)
        command = [sys.executable, "-W", "ignore", __file__, "serve", model, told, threads]
        own = {"TVM_NUM_THREADS": threads, "LP_NUM_THREADS": threads, "TVM_USE_RUNTIME_LIB": "1"}
        process = subprocess.Popen(
            command, env={**os.environ, **own}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
        )
        self.stack.callback(process.kill)
        made = Contender(process, self.info.target.kind == "cuda" and not model.endswith(".onnx"))
        made.ask({})
        return made


@dataclass(frozen=True)
class Cpp:
    """C++'s program that times two packages in turns, if there is one."""

    program: Path | None
    package: Path
    threads: int

    def measure(self, alone: Path, values: Mapping[str, int]) -> str:
        """Return how many times as long as a package of a size alone the package of all sizes takes at this size."""
        if self.program is None:
            return "-"
        size = ",".join(f"{letter}={value}" for letter, value in values.items())
        command = [self.program, alone, self.package, "--size", size, "--repeat", 30, "--threads", self.threads]
        environment = {**os.environ, "LP_NUM_THREADS": str(self.threads)}
        words = [str(each) for each in command]
        done = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout.split(" takes ")[-1].split()[0]


def show_sizes(cell: Path, starter: Starter, shared: tuple[Contender, Contender], how: tuple[Turns, Cpp]) -> None:
    """Print the times of each size."""
    info, (turns, cpp) = starter.info, how
    table = Table(title="each size, ms", title_justify="left")
    heads = ("size", "alone MB", "alone", "in the package", "ratio", "ratio in C++", "after another size")
    for head in (*heads, turns.peer, "ratio"):
        table.add_column(head, justify="right")
    assert info.sizes is not None
    smallest = shapes_at(info, info.sizes.functions[0].values)
    for function in info.sizes.functions:
        (part,) = (cell / "parts").glob(f"{function.size.name}-*.tar")
        with ExitStack() as own:
            alone = replace(starter, stack=own).start(str(part))
            shapes = shapes_at(info, function.values)
            asked = {"shapes": shapes}
            times = turns.time([(alone, asked), (shared[0], asked), (shared[1], asked)])
            switched = turns.time([(shared[0], {"shapes": shapes, "between": smallest})])
            memory = alone.tell_memory()
        (one, many, theirs), (after,) = times, switched
        row = (f"{part.stat().st_size / 1e6:.1f}", f"{one:.2f}", f"{many:.2f}", f"{many / one:.3f}")
        cpp_ratio = cpp.measure(part, function.values)
        table.add_row(function.size.name, *row, cpp_ratio, f"{after:.2f}", f"{theirs:.2f}", f"{many / theirs:.3f}")
    Console(width=120).print(table)
    print(f"peak memory in MiB of the largest alone: {memory}")


def show_draws(
    args: argparse.Namespace, info: PackageInfo, contenders: tuple[Contender, Contender], turns: Turns
) -> None:
    """Print the times over drawn lengths."""
    assert info.sizes is not None
    lengths = sorted(map(int, np.random.default_rng(0).integers(args.least, args.most + 1, args.draws)))
    ratios = []
    for length in lengths:
        values = {**info.sizes.functions[-1].values, args.letter: length}
        asked = {"shapes": shapes_at(info, values)}
        ours, theirs = turns.time([(each, asked) for each in contenders])
        ratios.append(ours / theirs)
        print(f"{args.letter}={length}: {ours:.2f} ms, {turns.peer} {theirs:.2f} ms, ratio {ours / theirs:.3f}")
    print(f"geometric mean of {len(ratios)} drawn lengths: {geometric_mean(ratios):.3f}")


def shapes_at(info: PackageInfo, values: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the shape of each input at a size."""
    assert info.sizes is not None
    varying = {name: list(fill_shape(shape, values)) for name, shape in info.sizes.inputs.items()}
    return {each.name: varying.get(each.name, list(each.shape)) for each in info.inputs}


# The process of one contender.


def serve(model: str, inputs: list[list[str]], threads: int) -> None:
    """Answer requests with the time of a call."""
    run = open_model(model, threads)
    print(json.dumps({}), flush=True)
    sys.stdin.readline()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(run, inputs, request)), flush=True)


def open_model(model: str, threads: int) -> Callable[[Mapping[str, np.ndarray]], object]:
    """Load a package, an ONNX file or a PyTorch module."""
    if model.endswith(".tar"):
        from tvmbuild.package.runtime.session import Session  # noqa: PLC0415 - this contender's runtime only

        return Session(Path(model), threads=threads).run
    if not model.endswith(".onnx"):
        return open_module(model)
    import onnxruntime  # noqa: PLC0415 - as above

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda arrays: session.run(None, dict(arrays))


def open_module(model: str) -> Callable[[Mapping[str, np.ndarray]], object]:
    """Return the call of the PyTorch module that FILE.py:FUNCTION makes, on the card, from arrays to an array."""
    import torch  # noqa: PLC0415 - as above

    file, _, name = model.rpartition(":")
    module = runpy.run_path(file)[name]().cuda().eval()

    def run(arrays: Mapping[str, np.ndarray]) -> object:
        with torch.inference_mode():
            return module(**{key: torch.from_numpy(value).cuda() for key, value in arrays.items()})[0].cpu().numpy()

    return run


def answer(
    run: Callable[[Mapping[str, np.ndarray]], object], inputs: list[list[str]], request: Mapping[str, Any]
) -> dict[str, float]:
    """Return the median time of the calls that fit in a turn, or the peak memory if there are no shapes."""
    if not request:
        return {"peak_mb": peak_memory_mb() or 0.0}
    arrays = draw(inputs, request["shapes"])
    between = draw(inputs, request["between"]) if "between" in request else None
    try:
        run(arrays)
    except Exception:  # noqa: BLE001 - peers have many; a file may have one size only
        return {"ms": math.nan}
    times: list[float] = []
    end = time.monotonic() + ROUND_S
    while not times or time.monotonic() < end:
        if between is not None:
            run(between)
        begin = time.perf_counter()
        run(arrays)
        times.append((time.perf_counter() - begin) * 1e3)
    return {"ms": statistics.median(times)}


def draw(inputs: list[list[str]], shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    """Return inputs: floats in [-1, 1), a mask of ones, token types of zeros, other integers below the vocabulary."""
    random = np.random.default_rng(0)
    arrays = {}
    for name, dtype in inputs:
        if np.dtype(dtype).kind == "f":
            arrays[name] = random.uniform(-1, 1, shapes[name]).astype(dtype)
        elif "mask" in name:
            arrays[name] = np.ones(shapes[name], dtype)
        else:
            high = 1 if "type" in name else VOCABULARY
            arrays[name] = random.integers(0, high, shapes[name]).astype(dtype)
    return arrays


if __name__ == "__main__":
    sys.exit(main())
