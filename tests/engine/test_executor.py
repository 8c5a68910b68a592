"""The choice of the executor of a step, and its effect on the step cache."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import write_text
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import BenchmarkOptions, CacheSpec, Tolerance
from tvmbuild.base.steps import AnyStep, BenchmarkStep, Settings, Step
from tvmbuild.doit_adapter.loader import hand_in, load_doit_file
from tvmbuild.doit_adapter.manner import Manner
from tvmbuild.doit_adapter.reporter import MatrixReporter
from tvmbuild.engine.cache.use import CacheUse
from tvmbuild.engine.executor import HERE, Executor
from tvmbuild.engine.step_run import run_step
from tvmbuild.engine.success import Success
from tvmbuild.errors import TvmbuildError


@dataclass
class _Fake:
    """Writes the step's outputs, and remembers its calls."""

    is_here: bool = True
    ran: list[str] = field(default_factory=list)

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:
        raise TvmbuildError(f"asked with {len(commands)} commands")

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:
        self.ran.append(f"{step.id} of {', '.join(path.name for path in inputs)}")
        write_text(step.output("result"), "{}\n")


def _make_step(root: Path) -> AnyStep:
    (root / "net.tar").write_bytes(b"a package")
    return Step(
        "benchmark",
        "net@pc",
        BenchmarkStep("pc", "llvm", LocalDevice(), 2, Tolerance(), BenchmarkOptions()),
        FrozenMap({"package": root / "net.tar"}),
        FrozenMap({"result": root / "build/result.json"}),
        root=root,
        settings=Settings(cache=CacheSpec(root / "cache")),
    )


def test_this_machine_travels_to_doits_processes() -> None:
    assert pickle.loads(pickle.dumps(HERE)) == HERE  # noqa: S301 - our own


@pytest.mark.parametrize("here", [True, False])
def test_what_another_machine_has_timed_is_shared_with_nobody(tmp_path: Path, here: bool) -> None:
    step, executor = _make_step(tmp_path), _Fake(is_here=here)
    for _ in range(2):
        end = run_step(step, executor, CacheUse())
        assert isinstance(end, Success)
        assert end.outputs.keys() == {"result"}
    assert executor.ran == ["benchmark:net@pc of net.tar"] * (1 if here else 2)
    assert (tmp_path / "cache").exists() is here


def test_a_loaded_project_gets_the_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.yaml").write_text("models: {}\n")
    (tmp_path / "targets.yaml").write_text("targets: {}\n")
    config, creator = load_doit_file(tmp_path / "dodo.py")
    executor: Executor = _Fake(is_here=False)
    hand_in(executor, {"DOIT_CONFIG": config, "task_steps": creator, "path": Path, "print": print}, Manner())
    with pytest.raises(SystemExit, match="asked with 0 commands"):
        list(creator())


def test_an_executor_reaches_a_project_whose_tasks_a_user_wraps(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text("")
    project = load_doit_file(tmp_path / "dodo.py")
    reporter = project.config["reporter"]
    assert isinstance(reporter, MatrixReporter)
    executor = _Fake(is_here=False)
    hand_in(executor, {"DOIT_CONFIG": {**project.config, "verbosity": 1}, "task_mine": lambda: None}, Manner())
    assert reporter.executor is executor


def test_steps_that_were_to_run_elsewhere_do_not_silently_run_here() -> None:
    hand_in(HERE, {}, Manner())
    with pytest.raises(TvmbuildError, match=r"no DOIT_CONFIG of tvmbuild's"):
        hand_in(_Fake(is_here=False), {"DOIT_CONFIG": {"verbosity": 1}}, Manner())
