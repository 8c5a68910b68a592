"""Build networks for a list of targets without records, and run the small ones on lavapipe: which build, and how fast.

python benchmarks/target_builds.py MODEL.onnx|NETWORK … [--targets cuda:sm_87 vulkan:amd-rdna …] [--lavapipe 30]
                                   [--limit 600]

Each build has a process of its own. A cell has the wall-clock and CPU seconds of the compiler, with all code generated,
or the sentence with which tvmbuild refuses. Models of at most ``--lavapipe`` MB also run on Mesa's software driver,
built for the family `lavapipe`, and their numbers are compared with those of the original in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import queue
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from network_files import find_inputs, find_network

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.cli.compile.target_words import find_target
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget

if TYPE_CHECKING:
    import numpy as np

TARGETS = ("cuda:sm_87", "cuda:sm_90", "vulkan:intel-iris-xe", "vulkan:amd-rdna")
LAVAPIPE = "vulkan:lavapipe"
TOLERANCE = 1e-3
"""The allowed error relative to an output's largest magnitude."""
MOST_ROWS = 2000
"""The largest number of rows of an output that are compared without their order."""


@dataclass(frozen=True)
class Answer:
    """The result of a process."""

    text: str
    is_good: bool


def simplify_into(folder: Path, word: str) -> Answer:
    """Simplify a model into the folder, with the original's outputs."""
    from tvmbuild.preparing.reference import write_reference  # noqa: PLC0415 - each step has its own process
    from tvmbuild.preparing.simplify import simplify  # noqa: PLC0415

    model = find_network(word)
    simplified = simplify(model, find_inputs(model.stem), name=model.stem)
    (folder / "model.onnx").write_bytes(simplified.model)
    write_reference(folder / "reference.npz", simplified.reference)
    return Answer("simplified", True)


def build_for(folder: Path, word: str) -> Answer:
    """Build the simplified model for a target, as `--target` names it."""
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415
    from tvmbuild.package.archive import write_package  # noqa: PLC0415

    target = make_target(word)
    start = time.monotonic()
    package = build_package(folder / "model.onnx", target, options=BuildOptions())
    seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF)
    write_package(folder / "net.tar", package)
    return Answer(f"{seconds:.0f} s ({used.ru_utime + used.ru_stime:.0f})", True)


def make_target(word: str) -> PackageTarget:
    """Return the target that a word such as `cuda:sm_87` or `vulkan:amd-rdna` names."""
    data = dict(find_target(word).data)
    kind, host = data.pop("kind"), FrozenMap(data.pop("host"))
    return PackageTarget(word, kind, FrozenMap(_complete(kind, data)), host)


def _complete(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    from tvmbuild.targets.vulkan_families import FAMILIES  # noqa: PLC0415

    family = FAMILIES[str(data["family"])] if kind == "vulkan" else {}
    left = {"family", "device", "tune", "glibc", "link", "driver", "ptx"}
    return {**family, **{name: value for name, value in data.items() if name not in left}}


def run_package(folder: Path, _word: str) -> Answer:
    """Run the built package on this machine's device, and compare its outputs with the original's."""
    import numpy as np  # noqa: PLC0415

    from tvmbuild.package.runtime.session import Session  # noqa: PLC0415
    from tvmbuild.preparing.reference import read_reference  # noqa: PLC0415

    reference = read_reference(folder / "reference.npz")
    with Session(folder / "net.tar") as session:
        start = time.monotonic()
        outputs = session.run(reference.inputs)
        seconds = time.monotonic() - start
    worst, order = 0.0, ""
    for name, got in outputs.items():
        want = reference.outputs[name].astype("float64")
        if got.shape != want.shape:
            return Answer(f"WRONG: {name} is {got.shape}, not {want.shape}", False)
        if not np.array_equal(np.isfinite(got), np.isfinite(want)):
            return Answer(f"WRONG: {name} is not finite where the original is", False)
        largest = max(float(np.abs(want).max(initial=0, where=np.isfinite(want))), 1e-30)
        error = float(np.abs(got.astype("float64") - want).max(initial=0, where=np.isfinite(want))) / largest
        if error > TOLERANCE and want.ndim > 1 and want.size // want.shape[-1] <= MOST_ROWS:
            in_pairs = _compare_rows(got.astype("float64"), want) / largest
            order = ", rows in another order" if in_pairs <= TOLERANCE else ""
            error = min(error, in_pairs)
        worst = max(worst, error)
    verdict = "right" if worst <= TOLERANCE else "DIFFERENT"
    return Answer(f"{verdict}, {worst:.0e}{order}, {seconds:.1f} s", worst <= TOLERANCE)


def _compare_rows(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest distance between rows in the pairing with the least sum of distances.

    Rows whose scores differ by less than rounding, as after a TopK, have no order.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    rows, others = (each.reshape(-1, each.shape[-1]) for each in (got, want))
    distances = abs(rows[:, None] - others[None]).max(-1)
    return float(distances[linear_sum_assignment(distances)].max())


def in_child(function: Callable[[Path, str], Answer], folder: Path, word: str, limit: float) -> Answer:
    """Call the function in a process of its own; a refusal, a crash and the time limit are answers, too."""
    context = multiprocessing.get_context("spawn")
    answers, answer = context.Queue(), Answer(f"STOPPED after {limit:.0f} s", False)
    child = context.Process(target=_answer, args=(answers, function, folder, word))
    child.start()
    deadline = time.monotonic() + limit
    while child.is_alive() and answers.empty() and time.monotonic() < deadline:
        time.sleep(0.1)
    if not child.is_alive():
        answer = Answer(f"CRASHED: exit code {child.exitcode}", False)
    with contextlib.suppress(queue.Empty):
        answer = answers.get(timeout=1)
    child.kill()
    child.join()
    return answer


def _answer(
    answers: multiprocessing.Queue[Answer], function: Callable[[Path, str], Answer], folder: Path, word: str
) -> None:
    try:
        answers.put(function(folder, word))
    except TvmbuildError as error:
        answers.put(Answer("refused: " + " ".join(error.message.split())[:300], False))
    except Exception as error:  # noqa: BLE001 - the table shows it
        answers.put(Answer(f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:300]}", False))


def show_row(word: str, targets: list[str], lavapipe: int, limit: float) -> bool:
    """Print a model's row; return whether all of it is good."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        answers = [in_child(simplify_into, folder, word, limit)]
        if answers[0].is_good:
            answers = [in_child(build_for, folder, target, limit) for target in targets]
            if lavapipe and (folder / "model.onnx").stat().st_size <= lavapipe << 20:
                built = in_child(build_for, folder, LAVAPIPE, limit)
                answers.append(in_child(run_package, folder, LAVAPIPE, limit) if built.is_good else built)
    print(f"| {Path(word).stem} | {' | '.join(each.text for each in answers)} |", flush=True)
    return all(each.is_good for each in answers)


def main() -> int:
    """Print the table; return 1 if a cell is not good."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", metavar="MODEL")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--lavapipe", type=int, default=0, metavar="MB")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS")
    args = parser.parse_args()
    headings = [*args.targets, *(["on lavapipe"] if args.lavapipe else [])]
    print(f"| model | {' | '.join(headings)} |\n|---|{'---|' * len(headings)}", flush=True)
    shown = [show_row(word, args.targets, args.lavapipe, args.limit) for word in args.networks]
    return 0 if all(shown) else 1


if __name__ == "__main__":
    sys.exit(main())
