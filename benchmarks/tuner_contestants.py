"""The two tuners of tuner_throughput.py, each in its own process, and the packages built from their records.

python tuner_contestants.py stock|tvmbuild SETTING.json
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from network_files import find_inputs

from tvmbuild.base.attributes import Attributes, Precision, freeze_attributes
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.benchmarking.measure import measure_in_turns
from tvmbuild.benchmarking.statistics import summarize
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.model_worker import Load, Worker, start_worker
from tvmbuild.records.schedule import Schedule

TARGET = "bench"
STOCK_FILES = ("database_workload.json", "database_tuning_record.json")


@dataclass(frozen=True)
class Setting:
    """The input of both tuners. ``folder`` is the benchmark's own.

    ``records`` is a folder of records, for the packages that are built from them and from their attributes.
    """

    model: Path
    cpu: str
    threads: int
    trials_per_task: int
    folder: Path
    records: Path | None = None

    @classmethod
    def read(cls, path: Path) -> Setting:
        """Read a setting that ``write`` wrote."""
        fields = json.loads(path.read_text())
        return cls(**{**fields, "model": Path(fields["model"]), "folder": Path(fields["folder"])})

    def write(self, path: Path) -> None:
        """Write the setting as JSON."""
        path.write_text(json.dumps(asdict(self), default=str))

    @property
    def attributes(self) -> Attributes:
        """Return the target's attributes."""
        if self.records is not None:
            return read_attributes(self.records)
        return FrozenMap({"mcpu": self.cpu, "mtriple": "x86_64-linux-gnu", "num-cores": self.threads})

    def work(self, tuner: str) -> Path:
        """Return the folder in which a tuner keeps its results."""
        return self.folder / tuner

    def found(self, tuner: str) -> Path:
        """Return the folder with a tuner's records."""
        return self.work(tuner) if tuner == "stock" else self.work(tuner) / "records" / TARGET

    def tune_step(self) -> Step[TuneStep]:
        """Return our tune step; its project is ``work('tvmbuild')``."""
        root = self.work("tvmbuild")
        options = TuneOptions(trials_per_task=self.trials_per_task)
        return Step(
            "tune",
            f"{self.model.stem}@{TARGET}",
            TuneStep(TARGET, "llvm", self.attributes, FrozenMap(), None, LocalDevice(), options, threads=self.threads),
            inputs=FrozenMap({"model": self.folder / "model.onnx"}),
            outputs=FrozenMap({role: root / "build" / f"{role}.json" for role in ("tasks", "schedule", "info")}),
            root=root,
        )


def simplify_model(setting: Setting) -> None:
    """Write model.onnx and reference.npz to the benchmark's folder."""
    from tvmbuild.preparing.reference import write_reference  # noqa: PLC0415 - each function has its own process
    from tvmbuild.preparing.simplify import simplify  # noqa: PLC0415

    simplified = simplify(setting.model, find_inputs(setting.model.stem))
    (setting.folder / "model.onnx").write_bytes(simplified.model)
    write_reference(setting.folder / "reference.npz", simplified.reference)


def tune_stock(setting: Setting) -> None:
    """Tune as TVM ships it, with defaults for everything except the module, the target and the trials."""
    from tvm.s_tir.meta_schedule.relax_integration import tune_relax  # noqa: PLC0415

    lowered, target = _lower(setting)
    from tvmbuild.compiler.tasks import extract_tasks  # noqa: PLC0415

    tune_relax(
        mod=lowered.mod,
        params={},
        target=target,
        work_dir=str(setting.work("stock")),
        max_trials_global=setting.trials_per_task * len(extract_tasks(lowered)),
        max_trials_per_task=setting.trials_per_task,
    )


def tune_ours(setting: Setting) -> None:
    """Run the tune stage."""
    from tvmbuild.stages import tune  # noqa: PLC0415

    tune.run(setting.tune_step())


def build_package(setting: Setting, tuner: str, copy: Path, package: Path) -> None:
    """Compile the model with a copy's records; `.json` beside the package gets the number of Tasks with a record."""
    from tvmbuild.base.files import write_json  # noqa: PLC0415
    from tvmbuild.compiler.tasks import extract_tasks  # noqa: PLC0415

    lowered, _ = _lower(setting)
    tasks = extract_tasks(lowered)
    winners, trials = (_stock_winners if tuner == "stock" else _our_winners)(copy, tasks)
    compile_with(setting, Schedule(FrozenMap(sorted(winners.items()))), package)
    write_json(package.with_suffix(".json"), {"covered": len(winners), "tasks": len(tasks), "trials": trials})


def build_recorded(setting: Setting, package: Path) -> None:
    """Compile the simplified model with ``setting.records`` only, without any schedule by rule."""
    from tvmbuild.compiler.tasks import extract_tasks  # noqa: PLC0415

    winners: dict[str, str] = {}
    if setting.records is not None:
        tasks = extract_tasks(_lower(setting)[0])
        winners, _ = _our_winners(setting.records, tasks)
        print(f"{setting.model.stem}: {len(winners)} of {len(tasks)} Tasks have a record", file=sys.stderr)
    compile_with(setting, Schedule(FrozenMap(sorted(winners.items()))), package)


def read_attributes(records: Path) -> Attributes:
    """Return the attributes of the target of a folder's records."""
    first = min(records.glob("????????????????.json"), default=None)
    if first is None:
        sys.exit(f"there are no records in {records}")
    return freeze_attributes(json.loads(first.read_text())["target"]["attributes"])


def run_in_child(function: Any, *arguments: Any) -> None:
    """Run in a fresh process, so that no part's loads or leftovers help or hurt another."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{function.__name__} failed")


def compile_with(setting: Setting, schedule: Schedule, package: Path, precision: Precision = "fp32") -> None:
    """Compile the simplified model with a Schedule."""
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415 - imports TVM
    from tvmbuild.package.archive import write_package  # noqa: PLC0415
    from tvmbuild.package.metadata import PackageTarget  # noqa: PLC0415

    target = PackageTarget(TARGET, "llvm", setting.attributes, precision=precision)
    options = BuildOptions(setting.model.stem)
    write_package(package, build_package(setting.folder / "model.onnx", target, schedule, options))


def time_loads(loads: Mapping[str, Load], repeat: int) -> dict[str, float]:
    """Return each one's median ms a call, timed in turns, each in its own process."""
    with ExitStack() as stack, device_lock("local", exclusive=True):
        workers = {name: stack.enter_context(start_worker(load)) for name, load in loads.items()}
        for worker in workers.values():
            worker.pause()
        return time_workers(workers, repeat)


def time_workers(workers: Mapping[str, Worker], repeat: int) -> dict[str, float]:
    """Return the median ms a call of paused workers. The caller holds the device."""
    measured = measure_in_turns(workers, 1, repeat, LOCAL.watch(tuple(workers.values())))
    return {name: summarize(samples).median.value for name, samples in measured.samples.items()}


def _lower(setting: Setting) -> tuple[Any, Any]:
    from tvmbuild.compiler.importing.importer import import_onnx  # noqa: PLC0415
    from tvmbuild.compiler.machine.target import tvm_target  # noqa: PLC0415
    from tvmbuild.compiler.pipeline import lower  # noqa: PLC0415

    target = tvm_target("llvm", setting.attributes, FrozenMap())
    return lower(import_onnx(setting.folder / "model.onnx"), target), target


def _our_winners(copy: Path, tasks: Any) -> tuple[dict[str, str], int]:
    from tvmbuild.records.store import read_task_file, record_path  # noqa: PLC0415

    files = {task.key: read_task_file(record_path(copy, task.key)) for task in tasks}
    winners = {key: file.records[0].trace for key, file in files.items() if file and file.records}
    return winners, sum(file.most_searched for file in files.values() if file)


def _stock_winners(copy: Path, tasks: Any) -> tuple[dict[str, str], int]:
    from tvm.s_tir.meta_schedule.database import JSONDatabase  # noqa: PLC0415

    from tvmbuild.replay.traces import dump_trace  # noqa: PLC0415

    paths = [copy / name for name in STOCK_FILES]
    if not all(path.exists() for path in paths):
        return {}, 0
    for path in paths:  # a copy may end in the middle of a line
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])
    database = JSONDatabase(*map(str, paths))
    winners = {}
    for task in tasks:
        if database.has_workload(task.mod):
            top = database.get_top_k(database.commit_workload(task.mod), 1)
            if top and min(float(seconds) for seconds in top[0].run_secs) < math.inf:
                winners[task.key] = dump_trace(top[0])
    return winners, len(paths[1].read_text().splitlines())


TUNERS = {"stock": tune_stock, "tvmbuild": tune_ours}

if __name__ == "__main__":
    TUNERS[sys.argv[1]](Setting.read(Path(sys.argv[2])))
