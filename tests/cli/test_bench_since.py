"""The option `tvmbuild bench --since`, without compiler and timing: the history is written by hand."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_results import make_entry, make_result
from doit_project import DoitProject
from finished_project import CONV, SHARED, write_finished_project

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.benchmarking.history import append_entry
from tvmbuild.benchmarking.results import Result
from tvmbuild.cli import main

CELL = "first@v3"
COMMITTED = 1_000_000


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoitProject:
    """Two models on v3; a git repository with one commit, tagged v1, made COMMITTED seconds after the epoch."""
    project = write_finished_project(tmp_path)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(project.runtime))
    when = f"@{COMMITTED} +0000"
    environment = dict(os.environ, GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "models.yaml"], [*who, "commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run(["git", *words], env=environment, check=True)
    return project


def remember(project: DoitProject, time: int, result: Result, **schedules: str) -> None:
    append_entry(Layout(project.root).history, make_entry(time, result, **schedules))


def measured(ms: float, sha256: str = "ab" * 32, onnxruntime_ms: float = 4.0) -> Result:
    result = make_result(CELL, ms, onnxruntime_ms)
    return replace(result, product=replace(result.product, sha256=sha256))


def since(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["bench", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_regression_fails_and_blames_the_tasks_that_changed(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(project, COMMITTED - 60, measured(2.0), **{CONV: "1", SHARED: "1"})
    remember(project, COMMITTED + 60, measured(3.0, "cd" * 32), **{CONV: "2", SHARED: "1"})
    code, text = since(capsys, CELL, "--since", "v1")
    assert code == 1
    assert f"{CELL}: 1.50x slower (1.500 [1.4" in text
    assert ", relative to onnxruntime): 2.00 ms on 1970-01-12 " in text
    assert text.rstrip().endswith(f"3.00 ms now\n  conv2d_add_relu ({CONV}): another record")


def test_the_same_package_is_not_blamed(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    remember(project, 1, measured(2.0))
    remember(project, COMMITTED + 1, measured(3.0))
    code, text = since(capsys, CELL, "--since", "v1")
    assert code == 1
    assert "the package is the same, byte by byte" in text


def test_all_cells_are_compared_and_what_cannot_be_is_said(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(project, 1, measured(2.0))
    remember(project, COMMITTED + 1, replace(measured(2.0), warnings=("the machine was busy",)))
    remember(project, COMMITTED + 1, make_result("second@v3"))
    code, text = since(capsys, "--since", "HEAD")
    assert code == 0
    assert f"{CELL}: no difference (1.000 [" in text
    assert "  now: the machine was busy" in text
    assert "second@v3: not compared: there is no benchmark of it before HEAD was committed" in text
    assert "first@v2: not compared: it was never benchmarked here" in text


def test_a_faster_cell_is_no_regression(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    remember(project, 1, measured(3.0))
    remember(project, COMMITTED + 1, measured(2.0, "cd" * 32))
    code, text = since(capsys, CELL, "--since", "v1")
    assert code == 0
    assert "1.50x faster" in text


@pytest.mark.parametrize("name", ["other.jsonl", "result.json"])
def test_a_file_of_another_time_or_place(
    project: DoitProject, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    if name == "result.json":
        write_json(path, measured(2.0).to_json())
    else:
        append_entry(path, make_entry(1, measured(2.0), **{CONV: "1"}))
    remember(project, 5, measured(4.0, "cd" * 32), **{CONV: "1"})
    code, text = since(capsys, CELL, "--since", str(path))
    assert code == 1
    assert "2.00x slower" in text
    known = "no Task's schedule changed" if name == "other.jsonl" else "which schedules changed is not known"
    assert known in text


def test_the_result_of_the_newest_benchmark_is_not_compared_with_itself(
    project: DoitProject, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_json(tmp_path / "result.json", measured(2.0).to_json())  # with its operators, which the history leaves out
    remember(project, 5, measured(2.0), **{CONV: "1"})
    code, text = since(capsys, CELL, "--since", str(tmp_path / "result.json"))
    assert code == 0
    assert f"{CELL}: not compared: nothing was measured after the one in " in text
    remember(project, 6, measured(3.0, "cd" * 32), **{CONV: "2"})
    code, text = since(capsys, CELL, "--since", str(tmp_path / "result.json"))
    assert code == 1
    assert f"({CONV}): another record" in text


def test_damage_is_said_and_left_out(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    history = Layout(project.root).history
    remember(project, 1, measured(2.0))
    with history.open("a") as stream:
        stream.write("nonsense\n")
    remember(project, COMMITTED + 1, measured(2.0))
    with history.open("a") as stream:
        stream.write('{"torn')
    code, text = since(capsys, CELL, "--since", "v1")
    assert code == 0
    assert f"warning: {history}: 1 line cannot be read (damaged, or of another version)" in text
    assert "no difference" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "v1"], "there is no benchmark in "),
        (["no@v3", "--since", "v1"], "there is no cell no@v3"),
        (["frist@v3"], "there is no cell frist@v3\n  hint: Did you mean first@v3?"),
        (["--since", "v1", "--repeat", "3"], "--since times nothing, so --repeat has no effect"),
    ],
)
def test_errors(
    project: DoitProject,  # noqa: ARG001 - the folder
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    code, text = since(capsys, *arguments)
    assert code == 1
    assert f"error: {message}" in text


@pytest.mark.parametrize("word", ["v2", "--version", "build/absent.jsonl"])
def test_what_is_neither_a_file_nor_a_revision(
    project: DoitProject, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    remember(project, 1, measured(2.0))
    code, text = since(capsys, f"--since={word}")
    assert code == 1
    assert f"error: {word!r} is neither a file nor a git revision of {project.root}" in text


def test_a_file_that_is_no_benchmark(project: DoitProject, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    remember(project, 1, measured(2.0))
    (tmp_path / "x.json").write_text("{}")
    code, text = since(capsys, "--since", str(tmp_path / "x.json"))
    assert code == 1
    assert "x.json is not a result.json of this version of tvmbuild" in text
