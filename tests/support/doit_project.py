"""A small project on disk, driven by real doit in real processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tvmbuild.compiler.bugs import RAISE_BUGS

MODELS = """\
models:
  digits:
    source: {path: digits.onnx}
    tolerance: {rtol: 1e-3, atol: 1e-3}
"""
ON_V3 = "models:\n  digits:\n    source: {path: digits.onnx}\n    targets: {include: [v3]}\n"
"""The model on one target."""
OUTPUTS_ON_V3 = {
    "simplify:digits": ["models/digits/model.onnx", "models/digits/reference.npz", "models/digits/simplify.json"],
    "tune:digits@v3": [f"cells/digits@v3/{name}.json" for name in ("tasks", "schedule", "tune")],
    "compile:digits@v3": ["cells/digits@v3/digits-v3.tar"],
    "benchmark:digits@v3": ["cells/digits@v3/result.json"],
}
"""Step → its files under the build folder."""
STEPS_ON_V3 = list(OUTPUTS_ON_V3)
TARGETS = """\
defaults:
  device: local
  tune: {trials_per_task: 2, ops: ["conv2d_add_relu"], number: 1, repeat: 1, min_repeat_ms: 1}
  benchmark: {repeat: 3}
targets:
  v2: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, measured_on: here}
  v3: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 1, measured_on: here}
"""
DODO = """\
from tvmbuild.doit_adapter.loader import load_doit_file
DOIT_CONFIG, task_steps = load_doit_file(__file__)
"""
TIMEOUT_S = 240
QUICK_STAGES = Path(__file__).parent / "quick"
REAL = (pytest.mark.nightly, pytest.mark.compiler)
"""The marks of a test's variant whose project has the real stages."""
QUICK = pytest.mark.parametrize("quick", ["quick"], indirect=True, scope="session")
"""The mark of a module whose tests do not depend on the stages' results: they never run with the real ones."""


@dataclass(frozen=True)
class Ran:
    """The result of one doit."""

    code: int
    output: str

    @property
    def steps(self) -> list[str]:
        """The successful steps, in order."""
        return re.findall(r"^ok (\S+)", self.output, re.MULTILINE)

    @property
    def failed(self) -> list[str]:
        return re.findall(r"^!! (\S+)", self.output, re.MULTILINE)


@dataclass(frozen=True)
class DoitProject:
    """The folder of a project, with its own runtime folder so that it waits for no other build on the machine."""

    root: Path
    runtime: Path
    quick: bool = False
    """True if its steps compute nothing: tests/support/quick."""

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("TVMBUILD_") or name == RAISE_BUGS
        }
        path = [str(QUICK_STAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
        stages = {"PYTHONPATH": os.pathsep.join(path)} if self.quick else {}
        return kept | stages | {"XDG_RUNTIME_DIR": str(self.runtime), "COLUMNS": "200"} | extra

    def command(self, *arguments: str, tool: Sequence[str] = ("doit",)) -> list[str]:
        return [sys.executable, "-m", *tool, *arguments]

    def doit(self, *arguments: str, **extra: str) -> Ran:
        return self._run(self.command(*arguments), extra)

    def tvmbuild(self, *arguments: str, **extra: str) -> Ran:
        return self._run(self.command(*arguments, tool=("tvmbuild",)), extra)

    def _run(self, command: list[str], extra: dict[str, str]) -> Ran:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout)

    def start(self, *arguments: str, tool: Sequence[str] = ("doit",), **extra: str) -> subprocess.Popen[str]:
        """Start it in its own process group, as a terminal does; it ends with the test at the latest."""
        process = subprocess.Popen(
            self.command(*arguments, tool=tool),
            cwd=self.root,
            env=self.environment(PYTHONUNBUFFERED="1", **extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        _STARTED.append(process)
        return process

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def temporaries(self) -> list[Path]:
        return sorted(self.root.rglob(".*.tmp"))

    def copy(self, to: Path) -> DoitProject:
        """Return a copy with equal bytes and times."""
        shutil.copytree(self.root, to / "project", symlinks=True)
        return make_project(to, self.quick)


_STARTED: list[subprocess.Popen[str]] = []


def end_started() -> None:
    """Kill the processes that a failed test has started and not waited for: they would disturb the next tests."""
    while _STARTED:
        with _STARTED.pop() as process:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def make_project(folder: Path, quick: bool = False) -> DoitProject:
    """Return the project in ``folder``/project, which may exist already."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, parents=True)
    root = folder / "project"
    root.mkdir(exist_ok=True)
    return DoitProject(root, runtime, quick)


def write_project(
    folder: Path, model: Path, models: str = MODELS, targets: str = TARGETS, *, quick: bool = False
) -> DoitProject:
    """Return a new project of one model, called digits, on two targets."""
    project = make_project(folder, quick)
    shutil.copyfile(model, project.root / "digits.onnx")
    (project.root / "models.yaml").write_text(models)
    (project.root / "targets.yaml").write_text(targets)
    (project.root / "dodo.py").write_text(DODO)
    return project


def wait_for_line(process: subprocess.Popen[str], start: str) -> list[str]:
    """Read the process's output up to the line that begins so."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line.startswith(start):
            return lines
    raise AssertionError(f"ended without {start!r}: {''.join(lines)}")


def start_in_step(project: DoitProject, step: str, *arguments: str, delay: float = 0.7) -> subprocess.Popen[str]:
    """Start doit, and return it in the middle of this step: quick steps hold a half-written output for a minute."""
    process = project.start(*arguments, QUICK_STAGE_SECONDS="60")
    wait_for_line(process, f".  {step}")
    if project.quick and delay:
        end = time.monotonic() + 30
        while not project.temporaries():
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
    else:
        time.sleep(delay)
    return process


def wait_until_gone(root: Path, seconds: float = 10.0) -> list[str]:
    """Return the processes that still work in ``root`` after that time; the tests hope for an empty list."""
    end = time.monotonic() + seconds
    while (left := _processes_in(root)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def _processes_in(root: Path) -> list[str]:
    return [
        f"{process.pid} {process.info['cmdline']}"
        for process in psutil.process_iter(["cwd", "cmdline", "status"])
        if process.info["cwd"] == str(root) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
