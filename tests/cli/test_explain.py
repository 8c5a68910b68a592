"""The command `tvmbuild explain`: for each kind of change, the exact words for the old and the new value."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from doit_project import DoitProject, write_project
from finished_project import (
    CONV,
    POOL,
    SHARED,
    TASKS,
    here,
    put,
    task_file,
    trace,
    tune_options,
    write_finished_project,
)

from tvmbuild.base.layout import Layout
from tvmbuild.cli import main
from tvmbuild.doit_adapter.state import RECORD
from tvmbuild.records.store import record_path
from tvmbuild.records.task_file import Record
from tvmbuild.stages.table import STAGES
from tvmbuild.tuning.rates import Spent, add_rates

CONV_TASK, SHARED_TASK, _ = TASKS["first"]
NEVER = "tune=never"
GONE = "a record that no longer applies -> no record"
NONE_APPLIES = (
    f"other records win now: conv2d_add ({SHARED}): {GONE}; conv2d_add_relu ({CONV}): {GONE}; max_pool ({POOL}): {GONE}"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoitProject:
    made = write_finished_project(tmp_path)
    monkeypatch.chdir(made.root)
    return made


def _explain(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out.splitlines()


def _reasons(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the step's state and its own reasons."""
    lines = _explain(capsys, *words)
    return [lines[0], *(line.removeprefix("  - ") for line in lines if line.startswith("  - "))]


def _change_state(project: DoitProject, step_id: str, old: str, new: str) -> None:
    """Change the state as if the last run had used ``old`` in place of the present ``new``."""
    path = Layout(project.root).state / f"{step_id.replace(':', '%3A')}.json"
    text = path.read_text()
    assert new in text
    path.write_text(text.replace(new, old))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def test_up_to_date(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    for path in project.root.glob("*.yaml"):
        path.write_text(f"# a comment\n{path.read_text()}")
    assert _explain(capsys, "compile:first@v3") == [
        "compile:first@v3: up to date",
        "inputs:",
        "  model: build/models/first/model.onnx",
        "  schedule: build/cells/first@v3/schedule.json",
    ]


def test_a_models_bytes(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    (project.root / "digits.onnx").write_bytes(b"retrained")
    change = f"input source changed: sha256 {_digest(b'a model')} -> {_digest(b'retrained')} (digits.onnx)"
    assert _explain(capsys, "tune:first@v3") == [
        "tune:first@v3: may run",
        "  - if simplify:first changes what it reads",
        "before it:",
        "  simplify:first: would run",
        f"    - {change}",
        "it also runs if one of them changes its inputs, and not if their bytes stay equal",
        "Tasks to tune: not known before simplify and tune have run",
        "inputs:",
        "  model: build/models/first/model.onnx",
    ]


def test_what_simplify_made(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    path = project.root / "build/models/first/model.onnx"
    before = path.read_bytes()
    path.write_bytes(b"edited")
    digests = f"sha256 {_digest(before)} -> {_digest(b'edited')} (build/models/first/model.onnx)"
    assert _reasons(capsys, "simplify:first") == ["simplify:first: would run", f"output model changed: {digests}"]
    assert _reasons(capsys, "compile:first@v3") == ["compile:first@v3: would run", f"input model changed: {digests}"]


@pytest.mark.parametrize(
    ("step", "edit", "reasons"),
    [
        (
            "benchmark:first@v3",
            ("models.yaml", "first: {", "first: {tolerance: {atol: 0.5}, "),
            ["option.tolerance.atol: 0.001 -> 0.5"],
        ),
        (
            "tune:first@v3",
            ("targets.yaml", "mcpu: x86-64-v3", "mcpu: haswell"),
            [
                'option.attributes.mcpu: "x86-64-v3" -> "haswell"',
                NONE_APPLIES,
            ],
        ),
        (
            "tune:first@v3",
            ("targets.yaml", "v3, mtriple: x86_64-linux-gnu", "v3, mattr: [+avx2], mtriple: x86_64-linux-gnu"),
            [
                'option.attributes.mattr: absent -> ["+avx2"]',
                NONE_APPLIES,
            ],
        ),
        (
            "tune:first@v3",
            ("targets.yaml", "trials_per_task: 64", "trials_per_task: 32"),
            ["option.tune.trials_per_task: 64 -> 32"],
        ),
        (
            "compile:first@v3",
            ("targets.yaml", "x86-64-v3,", 'x86-64-v3, glibc: "2.31",'),
            ['option.glibc: null -> "2.31"'],
        ),
        (
            "compile:first@v3",
            ("targets.yaml", "num-cores: 1}\n", "num-cores: 1, link: cc}\n"),
            ['option.link: "auto" -> "cc"'],
        ),
        (
            "compile:first@v3",
            ("models.yaml", "first: {", "first: {preprocess: {resize: crop}, "),
            [
                "option.preprocess: null -> absent",
                'option.preprocess.color: absent -> "rgb"',
                "option.preprocess.input: absent -> null",
            ],
        ),
        (
            "compile:first@v3",
            ("models.yaml", "first: {", "first: {labels: labels.txt, "),
            ["input labels was added: labels.txt"],
        ),
        (
            "simplify:first",
            ("models.yaml", "first: {", "first: {inputs: {x: {shape: [1, 3]}}, "),
            ["option.inputs: [] -> absent", "option.inputs[0].dtype: absent -> null"],
        ),
    ],
)
def test_options(
    project: DoitProject,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    step: str,
    edit: tuple[str, str, str],
    reasons: list[str],
) -> None:
    (project.root / "labels.txt").write_text("a\n")
    compiler = project.root / "bin" / "cc"  # the machine may have none
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\necho cc 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}{os.pathsep}{os.environ['PATH']}")
    project.edit(*edit)
    said = _reasons(capsys, step, NEVER)
    assert said[0] == f"{step}: would run"
    assert [reason for reason in said[1:] if not reason.startswith("tool ")][: len(reasons)] == reasons


def test_a_tool_an_environment_and_a_stage(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    path = Layout(project.root).state / "tune%3Afirst@v3.json"
    state = json.loads(path.read_text())
    before = state["_values_:"][RECORD]["fingerprint"]
    now = before["tool apache-tvm"]
    before |= {"tool apache-tvm": "0.26.0", "environment TVM_NUM_THREADS": "4", "stage version": "0"}
    path.write_text(json.dumps(state))
    version = next(stage.version for stage in STAGES if stage.name == "tune")
    assert _reasons(capsys, "tune:first@v3") == [
        "tune:first@v3: would run",
        "environment TVM_NUM_THREADS: 4 -> 1",
        f"stage version: 0 -> {version}",
        f"tool apache-tvm: 0.26.0 -> {now}",
    ]


def test_a_winning_record(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    options = tune_options(project)
    put(project, task_file(CONV_TASK, options, [2e-6, 1.5e-6]))
    lines = _explain(capsys, "compile:first@v3")
    assert lines[:6] == [
        "compile:first@v3: may run",
        "  - if tune:first@v3 changes what it reads",
        "before it:",
        "  tune:first@v3: would run",
        f"    - other records win now: conv2d_add_relu ({CONV}): 2 us on {here()} -> 1.5 us on {here()}",
        "it also runs if one of them changes its inputs, and not if their bytes stay equal",
    ]
    assert _reasons(capsys, "tune:second@v3") == ["tune:second@v3: up to date"]


def test_a_losing_record(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    put(project, task_file(CONV_TASK, tune_options(project), [2e-6, 2.5e-6, 9e-6], searched=999))
    assert _reasons(capsys, "tune:first@v3") == ["tune:first@v3: up to date"]


def test_a_record_of_another_device_class(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.edit("targets.yaml", "v3, mtriple", "v3, measured_on: other, mtriple")
    file = task_file(SHARED_TASK, tune_options(project), [2e-6, 3e-6])
    put(project, replace(file, records=(*file.records, Record(trace(7), 5e-6, "other", 1, "0.27.0"))))
    assert _reasons(capsys, "tune:second@v3") == [
        "tune:second@v3: would run",
        'option.measured_on: null -> "other"',
        f"other records win now: conv2d_add ({SHARED}): 2 us on {here()} -> 5 us on other",
    ]


def test_a_damaged_record(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    path = record_path(Layout(project.root).records("v3"), SHARED)
    path.write_text("[]")
    said = _reasons(capsys, "tune:second@v3")
    assert said[1] == f"other records win now: conv2d_add ({SHARED}): {GONE}"
    assert said[2].startswith(f"records/v3/{SHARED}.json: damaged record file (TypeError: ")
    assert len(said) == 3


def test_tasks_to_tune(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    options = tune_options(project)
    add_rates(Layout(project.root), options, {"conv2d": Spent(1000, 500.0)})
    put(project, task_file(SHARED_TASK, options, [2e-6], searched=60))
    put(project, task_file(CONV_TASK, options, [], searched=0))
    assert _explain(capsys, "tune:first@v3") == [
        "tune:first@v3: would run",
        f"  - other records win now: conv2d_add_relu ({CONV}): a record that no longer applies -> no record",
        "Tasks to tune: 2 of 3, 68 trials, 23 to 51 s",
        f"  conv2d_add_relu ({CONV}): 64 trials, 21 to 48 s, no record yet",
        f"  conv2d_add ({SHARED}): 4 trials, 1 to 3 s",
        "inputs:",
        "  model: build/models/first/model.onnx",
    ]
    # A Task that another cell would tune first counts as this cell's own, because only this cell was asked about.
    assert f"  conv2d_add ({SHARED}): 4 trials, 1 to 3 s" in _explain(capsys, "tune:second@v3")
    assert _explain(capsys, "tune:first@v3", NEVER)[2] == "Tasks to tune: none of 3, 2 have a record"


def test_a_package_deleted_or_damaged(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    package = project.root / "build/cells/first@v3/first-v3.tar"
    before = package.read_bytes()
    package.write_bytes(b"x" * len(before))
    digests = f"sha256 {_digest(before)} -> {_digest(package.read_bytes())} (build/cells/first@v3/first-v3.tar)"
    assert _reasons(capsys, "compile:first@v3") == ["compile:first@v3: would run", f"output package changed: {digests}"]
    assert _reasons(capsys, "benchmark:first@v3")[1:] == [f"input package changed: {digests}"]
    package.unlink()
    missing = "output package is missing: build/cells/first@v3/first-v3.tar"
    assert _reasons(capsys, "compile:first@v3") == ["compile:first@v3: would run", missing]


def test_an_added_target_and_an_added_model(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.edit("models.yaml", "include: [v3]", "include: [v2]")
    assert _reasons(capsys, "compile:second@v2", NEVER) == [
        "compile:second@v2: would run",
        "it has never finished",
    ]


def test_a_failure(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    path = Layout(project.root).failure("compile:first@v3")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"ran": True, "message": "the linker said no\nat length"}))
    assert _reasons(capsys, "compile:first@v3")[1:] == ["it failed the last time: the linker said no"]
    path.write_text("{")
    assert _reasons(capsys, "compile:first@v3")[1:] == ["it failed the last time"]


def test_modes_and_strict(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    assert _reasons(capsys, "tune:second@v3", "tune=full")[1:] == ["tune=full was asked for"]
    assert _reasons(capsys, "tune:first@v2", "strict=1")[1:] == ["strict=1: 3 Tasks without a record"]
    record_path(Layout(project.root).records("v3"), SHARED).unlink()
    assert _reasons(capsys, "tune:second@v3", NEVER)[1:] == [
        f"other records win now: conv2d_add ({SHARED}): a record that no longer applies -> no record"
    ]


def test_many_winners_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tuple(replace(CONV_TASK, key=f"{number:016x}", name=f"conv_{number}") for number in range(8))
    project = write_finished_project(tmp_path, {"first": tasks, "second": tasks[:1]})
    monkeypatch.chdir(project.root)
    for path in Layout(project.root).records("v3").iterdir():
        path.unlink()
    reason = _reasons(capsys, "tune:first@v3", NEVER)[1]
    assert reason.count("->") == 5
    assert reason.endswith("; and 3 more")


def _loss(node: str, weight: float | None, rounding: float, whole: float) -> dict[str, object]:
    return {"node": node, "operator": "Conv", "weight": weight, "rounding": rounding, "whole": whole}


def test_the_losses_of_a_quantised_models_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"a model")
    models = "models: {net: {source: {path: digits.onnx}, quantize: {calibration: {inputs: samples.npz}}}}\n"
    targets = "targets: {v3: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2, precision: int8}}\n"
    project = write_project(tmp_path, tmp_path / "net.onnx", models, targets)
    (project.root / "samples.npz").write_bytes(b"samples")
    monkeypatch.chdir(project.root)
    title = "operators by signal to noise in dB"
    assert not any(line.startswith(title) for line in _explain(capsys, "quantize:net"))
    losses = [_loss(f"conv{index}", 40.0 + index, 30.0 + index, 20.0) for index in range(11)]
    info = {"losses": [*losses, _loss("last", None, 9.5, 9.0)], "doubts": ["2 samples are too few"]}
    folder = project.root / "build/models/net/quantised"
    folder.mkdir(parents=True)
    (folder / "quantize.json").write_text(json.dumps(info))
    lines = _explain(capsys, "quantize:net")
    (start,) = (index for index, line in enumerate(lines) if line.startswith(title))
    assert lines[start - 2 : start] == ["doubts about the calibration:", "  2 samples are too few"]
    assert lines[start + 1 : start + 4] == [
        "  weights  activations  with all before  operator",
        "        -          9.5              9.0  last (Conv)",
        "     40.0         30.0             20.0  conv0 (Conv)",
    ]
    assert lines[-1] == "  and 2 more (--all)"
    every = _explain(capsys, "quantize:net", "--all")
    assert every[-1].endswith("conv10 (Conv)")
    assert main(["explain", "kernel", "net@pc", "--all"]) == 1
    assert "--all lists the operators of a quantised model, not kernels" in capsys.readouterr().err
    assert main(["explain", "simplify:net", "--all"]) == 1
    assert "--all lists the operators of a quantised model, and simplify:net quantises none" in capsys.readouterr().err
