"""Compare TVM's own `tune_relax` with tvmbuild's tune stage: the model's latency after the same wall time.

python benchmarks/tuner_throughput.py MODEL.onnx|NETWORK [--cpu x86-64-v3] [--threads 2] [--minutes 10] [--out DIR]

Both get the same lowered module, target, threads and trials a Task, one after the other on this machine, and start from
no records; the stock tuner runs with its defaults. The results of each are copied at the same points of time. In the
end a package is built from every copy, and all packages and ONNX Runtime are timed in turns. Needs an otherwise idle
machine. Writes result.json, throughput.png, the packages and the record files that tvmbuild found to DIR.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from network_files import network_file
from rich.console import Console
from rich.table import Table
from tuner_contestants import Setting, build_package, run_in_child, simplify_model, time_loads

from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.devices.model_worker import Load

SHARES = (1 / 20, 1 / 10, 1 / 5, 1 / 3, 1 / 2, 1.0)
"""The points of time, as shares of the stock tuner's wall time."""
STEP = 1.05
"""The factor from one copy of the stock tuner's records to the time of the next: its end is not known in advance."""
SAMPLES = 200


@dataclass(frozen=True)
class Point:
    """A tuner's result at one share of the stock tuner's time; ``ms`` is the package's median latency."""

    tuner: str
    share: float
    seconds: float
    trials: int
    covered: int
    tasks: int
    ms: float


def main() -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=network_file)
    parser.add_argument("--cpu", default="x86-64-v3")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials-per-task", type=int, default=64)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop the stock tuner then; default: at its end"
    )
    parser.add_argument("--out", type=Path, default=Path("build/tuner_throughput"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryDirectory() as name:
        setting = Setting(args.model.absolute(), args.cpu, args.threads, args.trials_per_task, Path(name))
        run_in_child(simplify_model, setting)
        stock = _tune("stock", setting, _later_and_later(args.minutes * 60))
        end = stock[-1][0]
        ours = _tune("tvmbuild", setting, [share * end for share in SHARES])
        shutil.copytree(setting.found("tvmbuild"), args.out / "records", dirs_exist_ok=True)
        chosen = [
            (tuner, share, *_at(copies, share * end))
            for tuner, copies in (("stock", stock), ("tvmbuild", ours))
            for share in SHARES
        ]
        result = {
            "model": args.model.stem,
            "machine": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "date": time.strftime("%Y-%m-%d")},
            "setting": {"cpu": args.cpu, "threads": args.threads, "trials_per_task": args.trials_per_task},
            **_time_all(setting, chosen, args.out.absolute()),
            "phases": _phases(setting),
        }
    (args.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    show(result, args.out / "throughput.png")
    return 0


# ------------------------------------------------------------------------------------------------- tuning


def _later_and_later(limit: float) -> list[float]:
    times = [15.0]
    while times[-1] < min(limit, 24 * 3600):
        times.append(min(limit, max(times[-1] + 5, times[-1] * STEP)))
    return times


def _tune(tuner: str, setting: Setting, times: Sequence[float]) -> list[tuple[float, Path]]:
    """Tune until it ends or the last of ``times`` has come; return (seconds, copy of the records) for each time."""
    setting.work(tuner).mkdir()
    given, log = setting.folder / "setting.json", setting.folder / f"{tuner}.log"
    setting.write(given)
    print(f"{tuner}: tuning for at most {times[-1] / 60:.0f} minutes", file=sys.stderr, flush=True)
    command = [sys.executable, str(Path(__file__).with_name("tuner_contestants.py").absolute()), tuner, str(given)]
    copies: list[tuple[float, Path]] = []
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=setting.folder, start_new_session=True)
        start = time.monotonic()
        for moment in times:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, moment - (time.monotonic() - start)))
            copies.append((time.monotonic() - start, _copy(setting, tuner, len(copies))))
            if process.poll() is not None:
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() not in {0, -signal.SIGKILL}:
            sys.exit(f"{tuner} failed:\n{log.read_text()[-3000:]}")
    print(f"{tuner}: ended after {copies[-1][0]:.0f} s", file=sys.stderr, flush=True)
    return copies


def _copy(setting: Setting, tuner: str, number: int) -> Path:
    copy = setting.folder / "copies" / tuner / str(number)
    copy.mkdir(parents=True)
    for path in setting.found(tuner).glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # replaced this moment
            shutil.copy(path, copy)
    return copy


def _at(copies: list[tuple[float, Path]], seconds: float) -> tuple[float, Path]:
    """Return the last copy taken by then (a second's grace), or the first."""
    found: tuple[float, Path] = max((copy for copy in copies if copy[0] <= seconds + 1), default=copies[0])
    return found


def _phases(setting: Setting) -> dict[str, float]:
    """Return our tuner's seconds by phase, with the rest as `idle`; empty if it was stopped before its end."""
    path = dict(setting.tune_step().outputs)["info"]
    if not path.exists():
        return {}
    info = json.loads(path.read_text())
    phases: dict[str, float] = info["phases_now"]
    return {**phases, "idle": round(info["seconds"] - sum(phases.values()), 1)}


# ------------------------------------------------------------------------------------------------- timing


def _time_all(setting: Setting, chosen: Sequence[tuple[str, float, float, Path]], out: Path) -> dict[str, Any]:
    """Build each copy's package below ``out``; time all, and ONNX Runtime, in turns, with the idle ones stopped."""
    reference = setting.folder / "reference.npz"
    loads = {"ONNX Runtime": Load("onnxruntime", setting.folder / "model.onnx", reference, setting.threads)}
    for number, (tuner, _, _, copy) in enumerate(chosen):
        package = out / f"{number}-{tuner}.tar"
        run_in_child(build_package, setting, tuner, copy, package)
        loads[package.stem] = Load("tvm", package, reference, setting.threads)
    medians = time_loads(loads, SAMPLES)
    points = []
    for number, (tuner, share, seconds, _) in enumerate(chosen):
        info = json.loads((out / f"{number}-{tuner}.json").read_text())
        points.append(asdict(Point(tuner, share, round(seconds, 1), **info, ms=round(medians[f"{number}-{tuner}"], 4))))
    return {"onnxruntime_ms": round(medians["ONNX Runtime"], 4), "points": points}


# ------------------------------------------------------------------------------------------------- showing


def show(result: dict[str, Any], plot: Path) -> None:
    """Print the comparison and draw it."""
    points = [Point(**point) for point in result["points"]]
    stock, ours = ([point for point in points if point.tuner == tuner] for tuner in ("stock", "tvmbuild"))
    table = Table(
        "share of its time", "stock s", "trials", "Tasks", "ms", "tvmbuild s", "trials", "Tasks", "ms", "stock/ours"
    )
    for theirs, mine in zip(stock, ours, strict=True):
        row = [f"{theirs.share:.2f}"]
        for point in (theirs, mine):
            row += [f"{point.seconds:.0f}", str(point.trials), f"{point.covered}/{point.tasks}", f"{point.ms:.3f}"]
        table.add_row(*row, f"{theirs.ms / mine.ms:.2f}x")
    console = Console(width=120)
    console.print(table)
    last = stock[-1]
    reached = next((point for point in ours if point.ms <= last.ms), None)
    said = "not reached" if reached is None else f"reached in {reached.seconds / last.seconds:.2f} of its wall time"
    console.print(f"stock's last latency, {last.ms:.3f} ms after {last.seconds:.0f} s: {said}")
    rates = [point.trials / point.seconds for point in (last, ours[-1])]
    console.print(f"trials/s: stock {rates[0]:.2f}, tvmbuild {rates[1]:.2f}, {rates[1] / max(rates[0], 1e-9):.1f}x")
    console.print(f"ONNX Runtime: {result['onnxruntime_ms']:.3f} ms; where tvmbuild's time went, s: {result['phases']}")
    _draw(stock, ours, result, plot)


def _draw(stock: list[Point], ours: list[Point], result: dict[str, Any], plot: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7, 4))
    for points, label in ((stock, "tune_relax as TVM ships it"), (ours, "tvmbuild")):
        axes.plot([point.seconds / 60 for point in points], [point.ms for point in points], "o-", label=label)
    axes.axhline(result["onnxruntime_ms"], color="grey", linestyle="--", label="ONNX Runtime")
    axes.set(xlabel="minutes of tuning", ylabel="latency, ms", yscale="log", title=result["model"])
    axes.legend()
    figure.tight_layout()
    figure.savefig(plot, dpi=120)


if __name__ == "__main__":
    sys.exit(main())
