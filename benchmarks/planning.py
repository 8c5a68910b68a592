"""Time `doit list --all`, `doit list --all -s` and `tvmbuild plan` on 200 models x 5 targets (3,200 steps).

They run first on a new project, then as if every step had run: each cell with 30 Tasks, whose record files, copies of
this project's own, are common to the cells of a target.

Run: python benchmarks/planning.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from tvmbuild.base.files import canonical_json
from tvmbuild.base.steps import Settings, TuneStep
from tvmbuild.planning.project import load_plan
from tvmbuild.records.selection import TaskId, resolved_target
from tvmbuild.records.store import read_task_file, record_path, write_task_file

MODELS, TARGETS, REPEATS, TASKS = 200, 5, 5, 30
PROJECT = Path(__file__).resolve().parent.parent
COMMANDS = (["doit", "list", "--all"], ["doit", "list", "--all", "-s"], ["tvmbuild", "plan"])
DODO = """\
from tvmbuild.doit_adapter.loader import load_doit_file
DOIT_CONFIG, task_steps = load_doit_file(__file__)
"""


def write_matrix(root: Path, models: int = MODELS, targets: int = TARGETS) -> None:
    """Write a project of that size; the models share one file, which nothing reads while planning."""
    (root / "net.onnx").write_bytes(b"")
    rows = [f"  model_{index}:\n    source: {{path: net.onnx}}\n" for index in range(models)]
    (root / "models.yaml").write_text("models:\n" + "".join(rows))
    cpu = "kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu"
    cells = [f"  target_{index}: {{{cpu}, num-cores: {index + 1}}}\n" for index in range(targets)]
    (root / "targets.yaml").write_text("targets:\n" + "".join(cells))
    (root / "dodo.py").write_text(DODO)


def finish_matrix(root: Path) -> None:
    """Make the project look finished."""
    sys.path.insert(0, str(PROJECT / "tests" / "support"))
    from finished_project import finish  # noqa: PLC0415 - it lies with the tests

    plan = load_plan(root, Settings())
    paths = [path for path in sorted((PROJECT / "records" / "x86-64-v3").glob("*.json")) if len(path.stem) == 16]
    files = [file for file in map(read_task_file, paths) if file is not None]
    targets = {step.options.target: step.options for step in plan.steps if isinstance(step.options, TuneStep)}
    for name, options in targets.items():
        target = canonical_json(resolved_target(options).to_json())
        for file in files:
            write_task_file(record_path(root / "records" / name, file.key), replace(file, target=target))
    ids = [TaskId(file.key, file.name, 1) for file in files]
    finish(plan, {f"model_{model}": tuple(islice(cycle(ids), model, model + TASKS)) for model in range(MODELS)})


def main() -> None:
    """Print the best of some repeats of each command."""
    with tempfile.TemporaryDirectory() as folder:
        write_matrix(Path(folder))
        print("a new project")
        _time_commands(folder)
        finish_matrix(Path(folder))
        time.sleep(2)  # recent changes are read again each time
        print(f"every step has run, {TASKS} Tasks a cell")
        _time_commands(folder)


def _time_commands(folder: str) -> None:
    for command in COMMANDS:
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=True
            )
            seconds.append(time.perf_counter() - start)
        print(f"  {' '.join(command)}: {len(done.stdout.splitlines())} lines, {min(seconds):.2f} s")


if __name__ == "__main__":
    main()
