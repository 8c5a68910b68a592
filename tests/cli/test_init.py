from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from doit_project import make_project
from onnx import TensorProto, helper

from tvmbuild.cli import main
from tvmbuild.cli.init import write_project
from tvmbuild.cli.records.merge_driver import ATTRIBUTES
from tvmbuild.config import load_project
from tvmbuild.records.reader import RecordReader
from tvmbuild.targets.table import target_kind


def test_a_new_project_is_complete_and_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new"
    assert main(["init", str(folder)]) == 0
    assert capsys.readouterr().out.endswith(f"next: cd {folder} && doit\n")
    for name in ("dodo.py", "models.yaml", "targets.yaml", ".gitignore", "models/silero_vad.onnx"):
        assert (folder / name).is_file(), name
    project = load_project(folder)
    assert [model.name for model in project.models] == ["silero_vad"]
    for name in ("models", "targets"):
        first = (folder / f"{name}.yaml").read_text().splitlines()[0]
        assert (folder / first.rpartition("$schema=")[2]).is_file()
    done = subprocess.run(
        [sys.executable, "-m", "doit", "list", "--all", "-q"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "compile:silero_vad@x86-64-v3" in done.stdout.split()


def test_build_is_ignored_by_git(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert "/build/" in (tmp_path / ".gitignore").read_text().splitlines()


def test_git_is_told_how_records_merge(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert (tmp_path / ".gitattributes").read_text() == f"{ATTRIBUTES}\n"


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["init", str(tmp_path)]) == 1
    assert (
        capsys.readouterr().err
        == f"error: {tmp_path} is not empty: it holds notes.txt\n  hint: Name an empty folder.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file")]) == 1
    assert f"{tmp_path}/file is a file" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "/proc/none"]) == 1
    assert capsys.readouterr().err == (
        "error: cannot write to /proc/none: No such file or directory\n  hint: Name a folder that you may write.\n"
    )


def test_a_git_clone_without_files_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert main(["init", str(tmp_path)]) == 0


def test_its_records_were_measured_beside_the_rules_of_now(tmp_path: Path) -> None:
    """Otherwise the first `doit` measures, but only on a machine of their class: elsewhere no test would notice."""
    write_project(tmp_path)
    (target,) = load_project(tmp_path).targets
    read = RecordReader().read
    files = {path.name: read(path) for path in (tmp_path / "records" / target.name).iterdir()}
    lagging = {name: file.list_lagging(target_kind(target.kind).rules) for name, file in files.items() if file}
    assert [name for name, classes in lagging.items() if target.measured_on in classes] == []


@pytest.mark.compiler
def test_the_first_doit_of_a_new_project_succeeds(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    write_project(project.root)
    ran = project.doit()
    assert ran.code == 0, ran.output
    cell = "silero_vad@x86-64-v3"
    assert ran.steps == ["simplify:silero_vad", f"tune:{cell}", f"compile:{cell}", f"benchmark:{cell}"]
    tuned = json.loads((project.root / "build" / "cells" / cell / "tune.json").read_text())
    # onnxsim 0.7, the last for Python 3.10, leaves one Task more than the shipped records know.
    assert (tuned["measured_now"] == 0) is (sys.version_info >= (3, 11))
    assert tuned["covered"] == tuned["tasks"] == len(list((project.root / "records" / "x86-64-v3").iterdir()))
    assert project.doit().steps == []


def test_the_model_comes_with_its_licence(tmp_path: Path, project_root: Path) -> None:
    write_project(tmp_path)
    licence = (tmp_path / "models/README.md").read_text().partition("## silero_vad.onnx: MIT License")[2]
    assert "Copyright (c) 2020-present Silero Team" in licence
    assert licence in (project_root / "models/README.md").read_text()
    assert (tmp_path / "models/silero_vad.onnx").read_bytes() == (project_root / "models/silero_vad.onnx").read_bytes()


def test_the_records_are_those_of_the_shipped_matrix(tmp_path: Path, project_root: Path) -> None:
    write_project(tmp_path)
    records = sorted((tmp_path / "records").rglob("*.json"))
    assert records
    stale = [
        path.name for path in records if path.read_bytes() != (project_root / path.relative_to(tmp_path)).read_bytes()
    ]
    assert stale == []


def save_open(path: Path, *shape: int | str) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_a_model_becomes_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two files describe the build of `tvmbuild compile` with these words; a model from elsewhere is copied."""
    save_open(tmp_path / "My Net.onnx", "N", 8)
    (tmp_path / "labels.txt").write_text("a\n")
    monkeypatch.chdir(tmp_path)
    words = ["--model", "My Net.onnx", "--target", "x86-64-v3", "--labels", "labels.txt", "--precision", "fp32"]
    assert main(["init", *words, "new"]) == 0
    assert capsys.readouterr().out.endswith("next: cd new && doit\n")
    project = load_project(tmp_path / "new")
    ((model,), (target,)) = project.models, project.targets
    assert (model.name, model.source.location, model.labels) == ("my_net", "models/My Net.onnx", "models/labels.txt")
    assert [(each.name, each.shape) for each in model.inputs] == [("x", (1, 8))]
    assert (target.name, target.glibc) == ("x86-64-v3", "2.28")
    assert (tmp_path / "new/.gitignore").is_file()
    for name in ("models", "targets"):
        first = (tmp_path / "new" / f"{name}.yaml").read_text().splitlines()[0]
        assert (tmp_path / "new" / first.rpartition("$schema=")[2]).is_file()
    assert "# More hardware: `tvmbuild target add NAME`" in (tmp_path / "new/targets.yaml").read_text()
    assert main(["init", *words, "new"]) == 1
    assert "new has a models.yaml\n  hint: Name another folder: nothing is overwritten." in capsys.readouterr().err


def test_a_model_that_lies_in_the_folder_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_open(tmp_path / "net.onnx", 1, 8)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--model", "net.onnx", "--target", "cuda:sm_86"]) == 0
    ((model,), (target,)) = load_project(tmp_path).models, load_project(tmp_path).targets
    assert (model.source.location, model.inputs, target.kind) == ("net.onnx", (), "cuda")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--model", "net.onnx"],
            "net.onnx leaves dimensions of its inputs open\n  hint: State them as numbers: --shape x=1,H",
        ),
        (
            ["--model", "net.onnx", "--shape", "X=1,8"],
            "net.onnx has no input X\n  hint: Did you mean x? Correct --shape",
        ),
        (["--shape", "x=1,8"], "these options need a model of your own\n  hint: Name it by --model."),
        (["--model", "nett.onnx"], "there is no file nett.onnx\n  hint: Did you mean net.onnx?"),
    ],
)
def test_what_is_missing_for_a_model_is_told(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_open(tmp_path / "net.onnx", "N", "H")
    monkeypatch.chdir(tmp_path)
    assert main(["init", *words, "--target", "x86-64-v3"] if "--model" in words else ["init", *words, "new"]) == 1
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_files_of_the_folder_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_open(tmp_path / "net.onnx", 1, 8)
    (tmp_path / "new/models").mkdir(parents=True)
    (tmp_path / "new/models/net.onnx").write_bytes(b"mine")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--model", "net.onnx", "--target", "x86-64-v3", "new"]) == 1
    assert "has a models/net.onnx\n" in capsys.readouterr().err
    assert (tmp_path / "new/models/net.onnx").read_bytes() == b"mine"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["models"]


def test_a_model_from_the_folder_above_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_open(tmp_path / "net.onnx", 1, 8)
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    assert main(["init", "--model", "../net.onnx", "--target", "x86-64-v3"]) == 0
    (model,) = load_project(tmp_path / "new").models
    assert model.source.location == "models/net.onnx"
    assert (tmp_path / "new/models/net.onnx").is_file()
