"""The command `tvmbuild compile`: one file in, one package out; doit's steps, in a folder of the user's cache."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from doit_project import DoitProject, Ran, make_project, wait_for_line, wait_until_gone

from tvmbuild.base.layout import cache_dir
from tvmbuild.base.postprocess_specs import Classes
from tvmbuild.cli import main
from tvmbuild.cli.compile import target_words
from tvmbuild.cli.compile.command import is_stage
from tvmbuild.cli.compile.model_words import add_model_arguments, find_model
from tvmbuild.cli.compile.project import OLD_S
from tvmbuild.cli.compile.target_words import find_target
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources import hub

V3 = ("--target", "x86-64-v3")
PC = "targets:\n  my-pc: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, glibc: 2.30}\n"


@pytest.fixture
def folder(tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> DoitProject:
    """A folder with a model and nothing else, and its own cache; its steps compute nothing."""
    shared = cache_dir()  # the machine's answers, and code compiled for it, made once
    own = tmp_path / "cache" / shared.name
    own.mkdir(parents=True)
    for name in ("probe", "zig", "vulkan"):
        (shared / name).mkdir(parents=True, exist_ok=True)
        (own / name).symlink_to(shared / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = make_project(tmp_path, quick=True)
    shutil.copyfile(digits, project.root / "digits.onnx")
    return project


def compile_here(folder: DoitProject, *words: str) -> Ran:
    return folder.tvmbuild("compile", "digits.onnx", *words)


def cached(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache/tvmbuild/compile").iterdir())


def names(folder: DoitProject) -> list[str]:
    return sorted(path.name for path in folder.root.iterdir())


def test_one_file_in_one_package_out(folder: DoitProject, tmp_path: Path) -> None:
    ran = compile_here(folder, *V3, "-o", "net.tar")
    assert ran.code == 0, ran.output
    cell = "digits@x86-64-v3"
    assert ran.steps == ["simplify:digits", f"tune:{cell}", f"compile:{cell}", f"benchmark:{cell}"]
    assert "wrote net.tar (" in ran.output
    assert "build/" not in ran.output
    assert names(folder) == ["digits.onnx", "net.tar"]
    (kept,) = cached(tmp_path)
    again = compile_here(folder, *V3)
    assert (again.steps, names(folder)) == ([], ["digits-x86-64-v3.tar", "digits.onnx", "net.tar"])
    with (folder.root / "digits.onnx").open("ab") as file:
        file.write(b"\x10\x00")
    assert compile_here(folder, *V3).steps[0] == "simplify:digits"
    assert cached(tmp_path) == [kept]


def test_the_options_are_those_of_both_files(folder: DoitProject, tmp_path: Path) -> None:
    (folder.root / "labels.txt").write_text("zero\n")
    words = (
        "--shape",
        "Input3=1,1,28,28",
        "--labels",
        "labels.txt",
        "--preprocess",
        "color: gray\nresize: crop\n",
        "--tune",
        "0.5",
    )
    result = ("--postprocess", "classes: {most: 3}")
    assert compile_here(folder, *V3, *words, *result, "--precision", "fp32").code == 0
    project = load_project(cached(tmp_path)[0])
    ((model,), (target,)) = project.models, project.targets
    assert (project.root / model.source.location).resolve() == folder.root / "digits.onnx"
    assert (project.root / (model.labels or "")).resolve() == folder.root / "labels.txt"
    assert [(each.name, each.shape) for each in model.inputs] == [("Input3", (1, 1, 28, 28))]
    assert model.preprocess is not None
    assert (model.preprocess.color, model.preprocess.resize) == ("gray", "crop")
    assert model.postprocess == (Classes(most=3),)
    assert (target.tune.minutes, target.glibc, target.precision) == (0.5, "2.28", "fp32")


def test_a_name_of_this_folders_targets(folder: DoitProject, tmp_path: Path) -> None:
    (folder.root / "targets.yaml").write_text(PC)
    (folder.root / "records").mkdir()
    assert compile_here(folder, "--target", "my-pc").code == 0
    (root,) = cached(tmp_path)
    (target,) = load_project(root).targets
    assert (target.name, target.cpu["mcpu"], target.glibc) == ("my-pc", "x86-64-v2", "2.30")
    assert (root / "records").resolve() == folder.root / "records"


@pytest.mark.parametrize("words", [(), ("-o", "net.tar")])
def test_ctrl_c_leaves_nothing_half_written(folder: DoitProject, words: tuple[str, ...]) -> None:
    process = folder.start("compile", "digits.onnx", *V3, *words, tool=("tvmbuild",), QUICK_STAGE_SECONDS="4")
    wait_for_line(process, ".  compile:")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) != 0
    assert names(folder) == ["digits.onnx"]
    assert wait_until_gone(folder.root) == []


def test_wrong_numbers_write_no_package(folder: DoitProject) -> None:
    (folder.root / "digits.onnx").write_text("no model")
    ran = compile_here(folder, *V3)
    assert ran.code != 0
    assert ran.failed == ["simplify:digits"]
    assert f"{folder.root}/digits.onnx is no ONNX file" in ran.output
    assert ".." not in ran.output
    assert "status" not in ran.output
    assert names(folder) == ["digits.onnx"]


def test_folders_of_other_models_that_nobody_uses_are_removed(folder: DoitProject, tmp_path: Path) -> None:
    assert compile_here(folder, *V3).code == 0
    (old,) = cached(tmp_path)
    stamp = (old / "models.yaml").stat().st_mtime - OLD_S - 60
    os.utime(old / "models.yaml", (stamp, stamp))
    assert compile_here(folder, "--target", "x86-64-v2").code == 0
    assert old not in cached(tmp_path)


TOLD: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (("digit.onnx",), "there is no file digit.onnx\n  hint: Did you mean digits.onnx? "),
    "a folder": ((".", "-o", "x.tar"), ". is a folder\n  hint: Name a model's file"),
    "no such CPU": (
        ("digits.onnx", "--target", "x86-64-v33"),
        "no target x86-64-v33\n  hint: Did you mean x86-64-v3?",
    ),
    "a name of targets.yaml, nearly": (("digits.onnx", "--target", "my-pcc"), "Did you mean my-pc?"),
    "no such family": (("digits.onnx", "--target", "vulkan:amd"), "Families are intel-iris-xe, amd-rdna"),
    "no architecture": (("digits.onnx", "--target", "cuda:87"), "such as cuda:sm_87"),
    "a Jetson without a JetPack": (
        ("digits.onnx", "--target", "cuda:sm_53"),
        "sm_53 boards have at most JetPack 4; JetPack 4, with glibc 2.27, runs no package",
    ),
    "the output's folder": (("digits.onnx", "-o", "no/net.tar"), "there is no folder no\n  hint: `mkdir -p no`"),
    "the output is a folder": (("digits.onnx", "-o", "."), ". is a folder\n  hint: Name a file: -o net.tar."),
    "no records": (("digits.onnx", "--records", "no"), "there is no folder no\n  hint: Correct --records"),
    "no labels": (("digits.onnx", "--labels", "no.txt"), "there is no file no.txt\n  hint: Correct --labels."),
    "a precision": (("digits.onnx", "--precision", "fp16"), "error: precision: fp16: x86-64-v3 has no fp16 arithmetic"),
    "postprocess": (("digits.onnx", "--postprocess", "boxes: {form: yolo}"), "error: postprocess.boxes.form: "),
    "preprocess": (("digits.onnx", "--preprocess", "mean: [1]"), "error: preprocess.mean: has 1 items"),
    "a search elsewhere": (
        ("digits.onnx", "--tune", "1", "--target", "cortex-a72"),
        "nothing can be measured for",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_mistakes_are_told_before_anything_is_built(
    case: str, folder: DoitProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, said = TOLD[case]
    monkeypatch.chdir(folder.root)
    monkeypatch.setattr(target_words, "_list_cpus", lambda: dict(CPUS))
    (folder.root / "targets.yaml").write_text(PC)
    target = () if "--target" in words else V3
    assert main(["compile", *words, *target]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert names(folder) == ["digits.onnx", "targets.yaml"]


CPUS = {"x86-64-v3": "x86_64-linux-gnu", "cortex-a72": "aarch64-linux-gnu"}


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("cuda:sm_86", "cuda-sm_86", {"kind": "cuda", "arch": "sm_86", "thread_warp_size": 32}),
        ("vulkan:amd-rdna", "vulkan-amd-rdna", {"kind": "vulkan", "family": "amd-rdna"}),
        ("cortex-a72", "cortex-a72", {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4}),
    ],
)
def test_what_targets_mean(
    text: str, name: str, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_words, "_list_cpus", lambda: dict(CPUS))
    found = find_target(text, tmp_path)
    assert (found.name, {key: found.data[key] for key in expected}) == (name, expected)


def test_a_jetsons_cpu_is_beside_its_card(tmp_path: Path) -> None:
    assert find_target("cuda:sm_87", tmp_path).data["host"]["mcpu"] == "cortex-a78ae"


@pytest.mark.compiler
def test_llvm_is_asked_for_its_cpus(tmp_path: Path) -> None:
    assert find_target("neoverse-n1", tmp_path).data["mtriple"] == "aarch64-linux-gnu"
    for name in ("i686", "generic"):
        with pytest.raises(TvmbuildError, match=f"there is no target {name}"):
            find_target(name, tmp_path)
    here = find_target(None, tmp_path)
    assert find_target(here.name, tmp_path).data["mtriple"] == here.data["mtriple"]


@pytest.mark.parametrize(
    ("words", "stage"),
    [((), True), (("tune=never",), True), (("-n", "2"), True), (("benchmark",), True)]
    + [((each,), False) for each in ("net.onnx", "--help", "-o")],
)
def test_the_stage_of_that_name_stays(words: tuple[str, ...], stage: bool) -> None:
    assert is_stage(words) is stage


def test_a_file_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, str, str | None]] = []
    (tmp_path / "net.onnx").write_bytes(b"a model")

    def download(repository: str, file: str, revision: str | None) -> Path:
        asked.append((repository, file, revision))
        return tmp_path / "net.onnx"

    monkeypatch.setattr(hub, "download_hub", download)
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    args = parser.parse_args([])
    for text in ("hf://robots/net/onnx/net.onnx", "hf://robots/net@v1/net.onnx"):
        assert find_model(text, args).path == tmp_path / "net.onnx"
    assert asked == [("robots/net", "onnx/net.onnx", None), ("robots/net", "net.onnx", "v1")]
    assert f"is sha256: {hashlib.sha256(b'a model').hexdigest()}" in capsys.readouterr().err
    with pytest.raises(TvmbuildError, match="hf://net names no file of the Hub"):
        find_model("hf://net", args)


@pytest.mark.compiler
def test_a_package_that_is_right(folder: DoitProject, tmp_path: Path) -> None:
    real = DoitProject(folder.root, folder.runtime)
    ran = real.tvmbuild("compile", "digits.onnx", "-o", "net.tar")
    assert ran.code == 0, ran.output
    (result,) = (tmp_path / "cache/tvmbuild/compile").rglob("result.json")
    assert json.loads(result.read_text())["max_abs_error"] < 1e-3
    ran = real.tvmbuild("run", "net.tar")
    assert "Plus214_Output_0" in ran.output


@pytest.mark.compiler
def test_what_passes_do_is_shown(folder: DoitProject) -> None:
    real = DoitProject(folder.root, folder.runtime)
    ran = real.tvmbuild("compile", "digits.onnx", *V3, "-o", "net.tar", "--dump-ir", "ir", "--print-passes")
    assert ran.code == 0, ran.output
    assert re.search(r"\d{3} FuseOps +[\d.]+ ms", ran.output)
    assert (folder.root / "ir" / "000-imported.py").is_file()
    assert (folder.root / "net.tar").is_file()
    (folder.root / "file").write_text("")
    ran = real.tvmbuild("compile", "digits.onnx", *V3, "-o", "net.tar", "--dump-ir", "file")
    assert ran.code == 1
    assert "cannot make the folder file" in ran.output
