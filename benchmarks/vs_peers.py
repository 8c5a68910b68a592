"""Time every model against ONNX Runtime and OpenVINO in one run: latency, ratio with its interval, share of the peak.

python benchmarks/vs_peers.py [NETWORK … | --attention | --unseen | --modern] [--threads 2 1] [--cpu CPU]
    [--records DIR] [--jobs N] [--out DIR]

A network is a name or the path of an ONNX file.

Without models: those of benchmarks/networks/models.yaml. Each is simplified and compiled with the records that cover
it, nothing is tuned; then package and peers are timed in turns, as the benchmark stage does. A model that cannot be had
or built is listed with the reason. Needs an otherwise idle machine. Writes vs_peers.json and vs_peers.md to DIR.
benchmarks/records/CPU.tar.xz has the winners of those models' Tasks, attention-CPU.tar.xz the records of six networks
with attention. A folder of records works too.
"""

from __future__ import annotations

import argparse
import contextvars
import shutil
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from network_files import ATTENTION, FOLDER, MODERN, UNSEEN, find_inputs, find_network, list_networks
from peers_table import PEERS, Row, make_table, to_json
from tuner_contestants import read_attributes

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import write_json, write_text
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout, layout_of_records
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import BenchmarkOptions, SimplifyOptions, Tolerance, TuneOptions
from tvmbuild.base.steps import AnyStep, CompileStep, Settings, SimplifyStep, Step, TuneStep
from tvmbuild.benchmarking.contest import Trial, run_contest
from tvmbuild.benchmarking.results import Result
from tvmbuild.devices.local.peak import measure_peak
from tvmbuild.devices.lock import device_lock
from tvmbuild.engine.process import run_process
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Peak, share_of_peak

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = Tolerance(2e-3, 2e-3)
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Debian 12's Python


@dataclass(frozen=True)
class Setting:
    """The common setting of all models. ``root`` is a project of the benchmark's own, with a copy of the records."""

    root: Path
    target: str
    attributes: Attributes
    repeat: int = 60


def main() -> int:
    """Run all, print the table, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    for folder in (ATTENTION, UNSEEN, MODERN):
        parser.add_argument(
            f"--{folder.name}",
            action="store_const",
            const=folder,
            dest="folder",
            help=f"those of networks/{folder.name}",
        )
    parser.add_argument("--threads", nargs="+", type=int, default=[2])
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument(
        "--records", type=Path, help="a folder (empty: all by rule), or an archive of one; default: the shipped archive"
    )
    parser.add_argument("--repeat", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1, help="networks that are built at a time; all before the timing")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "vs_peers")
    args = parser.parse_args()
    shown = progress_shown_by(lambda text: print(text, file=sys.stderr, flush=True))
    with tempfile.TemporaryDirectory(prefix="vs-peers-") as name, shown:
        records = unpack(args.records or ROOT / "benchmarks" / "records" / f"{args.cpu}.tar.xz", Path(name, "unpacked"))
        if args.records and not records.is_dir():
            sys.exit(f"there is no folder {records}")
        setting = replace(prepare(Path(name), args.cpu, records, max(args.threads)), repeat=args.repeat)
        peaks = {threads: _measure_peak(threads) for threads in args.threads}
        words = args.models or list_networks(args.folder or FOLDER)
        with ThreadPoolExecutor(args.jobs) as pool:
            context = contextvars.copy_context()  # it tells where progress is shown
            futures = [pool.submit(context.copy().run, try_to_build, word, setting) for word in words]
            built = [future.result() for future in futures]
        rows = [
            row for word, files in zip(words, built, strict=True) for row in time_model(word, files, setting, peaks)
        ]
    table = make_table(rows, peaks)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "vs_peers.json", to_json(rows, peaks))
    write_text(args.out / "vs_peers.md", table)
    print(table)
    return 0


def prepare(root: Path, cpu: str, records: Path, threads: int) -> Setting:
    """Copy the records, and take the target from them, because they apply to no other."""
    files = sorted(records.glob("????????????????.json"))
    attributes: Attributes = FrozenMap({"mcpu": cpu, "mtriple": "x86_64-linux-gnu", "num-cores": threads})
    if files:
        source, copy = layout_of_records(records.resolve()), Layout(root)
        shutil.copytree(records, copy.records(cpu))
        if source.verified(records.name).is_dir():  # saves replaying each record
            shutil.copytree(source.verified(records.name), copy.verified(cpu))
        attributes = read_attributes(records)
        if attributes["mcpu"] != cpu:
            sys.exit(f"the records of {records} are for {attributes['mcpu']}, not for {cpu}")
    return Setting(root, cpu, attributes)


def unpack(records: Path, folder: Path) -> Path:
    """Return the folder of records, from an archive unpacked into ``folder``."""
    if not records.is_file():
        return records
    with tarfile.open(records) as archive:
        archive.extractall(folder, **FILTER)  # noqa: S202 - our own
    return folder / records.name.removesuffix(".tar.xz")


def _measure_peak(threads: int) -> Peak:
    with device_lock("local", exclusive=True):
        return measure_peak(threads)


# ------------------------------------------------------------------------------------------------- one model


def try_to_build(word: str, setting: Setting) -> dict[str, Path] | str:
    """Build the model; return the files by role, or the reason for their absence."""
    print(f"{Path(word).stem}: building", file=sys.stderr, flush=True)
    try:
        return build_model(find_network(word), setting)
    except TvmbuildError as error:
        return " ".join(error.message.split())


def time_model(word: str, built: dict[str, Path] | str, setting: Setting, peaks: dict[int, Peak]) -> list[Row]:
    """Time the built package with each number of threads."""
    name = Path(word).stem
    if isinstance(built, str):
        return [Row(name, threads, problem=built) for threads in peaks]
    return [_time_model(name, built, threads, setting, peak) for threads, peak in peaks.items()]


def build_model(model: Path, setting: Setting) -> dict[str, Path]:
    """Simplify, elect the winners among the records and compile, each in its own process; return the files by role."""
    folder, name, settings = setting.root / "build" / model.stem, model.stem, Settings(tune="never")
    roles = ("model", "reference", "simplified", "tasks", "schedule", "tuned")
    files = {role: folder / f"{role}.json" for role in roles} | {"package": folder / f"{name}.tar"}
    files |= {"model": folder / "model.onnx", "reference": folder / "reference.npz"}
    threads = str(setting.attributes["num-cores"])
    environment = FrozenMap({"TVM_NUM_THREADS": threads})

    def step(stage: str, options: SimplifyStep | TuneStep | CompileStep, reads: str, writes: dict[str, str]) -> AnyStep:
        subject = name if stage == "simplify" else f"{name}@{setting.target}"
        inputs = FrozenMap({role: files[role] for role in reads.split()})
        outputs = FrozenMap({role: files[file] for role, file in writes.items()})
        return Step(stage, subject, options, inputs, outputs, FrozenMap(), 1, environment, setting.root, settings)

    simplify = SimplifyStep(name, Source("path", str(model)), find_inputs(name), SimplifyOptions())
    device, options = LocalDevice(), TuneOptions()
    tune = TuneStep(
        setting.target, "llvm", setting.attributes, FrozenMap(), None, device, options, threads=int(threads)
    )
    compile_ = CompileStep(name, setting.target, "llvm", setting.attributes, FrozenMap(), "auto", None, None)
    outputs = {"model": "model", "reference": "reference", "info": "simplified"}
    run_process(step("simplify", simplify, "", outputs))
    run_process(step("tune", tune, "model", {"tasks": "tasks", "schedule": "schedule", "info": "tuned"}))
    run_process(step("compile", compile_, "model schedule", {"package": "package"}))
    return files


def _time_model(name: str, files: dict[str, Path], threads: int, setting: Setting, peak: Peak) -> Row:
    print(f"{name}: timing with {threads} threads", file=sys.stderr, flush=True)
    options = BenchmarkOptions(repeat=setting.repeat, baselines=PEERS)
    trial = Trial(name, files["package"], files["model"], files["reference"], threads, TOLERANCE, options)
    try:
        with progress_shown_by(lambda _: None):
            result = run_contest(trial)
    except TvmbuildError as error:
        return Row(name, threads, problem=" ".join(error.message.split()))
    return Row(name, threads, result, share_of_limits(result, peak))


def share_of_limits(result: Result, peak: Peak) -> float | None:
    """Return the reached share of each operator's limit (roofline), weighted by time; None if unknown."""
    bounds = [(row.us, bound.share) for row in result.operators if (bound := share_of_peak(row, peak)) is not None]
    total = sum(row.us for row in result.operators)
    return sum(us * min(1.0, share) for us, share in bounds) / total if bounds and total else None


if __name__ == "__main__":
    sys.exit(main())
