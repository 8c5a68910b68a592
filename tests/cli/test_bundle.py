"""The command `tvmbuild bundle`: unpacked in another folder, its runner tunes there, and the records come home."""

from __future__ import annotations

import importlib.metadata
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import pytest
import yaml
from bundles import everything, make_bare_python, unpack
from doit_project import DoitProject, write_project

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.nvrtc import DISTRIBUTIONS
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.cli.bundle import site as bundle_site
from tvmbuild.cli.bundle.command import _pack_project
from tvmbuild.cli.bundle.site import list_needed
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
MODELS = "models:\n  digits:\n    source: {path: digits.onnx}\n    tolerance: {rtol: 1e-2}\n"
TARGETS = """\
defaults:
  tune: {trials_per_task: 2, ops: ["matmul*"], number: 1, repeat: 1, min_repeat_ms: 1, algorithms: [direct]}
  benchmark: {repeat: 3, baselines: []}
targets:
  off: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, device: none, enabled: false}
  there: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, device: none}
"""


@pytest.fixture
def project(tmp_path: Path, digits: Path) -> DoitProject:
    return write_project(tmp_path, digits, MODELS, TARGETS)


@pytest.mark.nightly
@pytest.mark.toolchain
def test_records_made_elsewhere_come_home(project: DoitProject, tmp_path: Path) -> None:
    early = project.tvmbuild("bundle", "digits@there")
    assert early.code == 1
    assert "digits is not simplified yet\n  hint: tvmbuild simplify:digits" in early.output
    assert project.tvmbuild("simplify:digits").code == 0
    made = project.tvmbuild("bundle", "digits@there", "--have", everything(), "-o", "b.tar")
    assert made.code == 0, made.output
    there = tmp_path / "there"
    unpack(project.root / "b.tar", there)
    targets = yaml.safe_load((there / "project" / "targets.yaml").read_text())["targets"]
    assert {name: (each["device"], each["link"]) for name, each in targets.items()} == {"there": ("local", "gcc")}
    done = subprocess.run(
        [make_bare_python(tmp_path / "bare"), "run.py", "--jobs", "1", "--minutes", "3"],
        cwd=there,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    unpack(there / "results.tar.gz", project.root)
    assert (project.root / "results" / "build" / "cells" / "digits@there" / "result.json").is_file()
    came = project.tvmbuild("records", "import", "results/records")
    assert came.code == 0, came.output
    assert list(Layout(project.root).records("there").glob("*.json"))


def test_the_quantised_model_travels_to_cells_of_integers(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    quantize = "    quantize: {calibration: {inputs: real.npz}}\n"
    (tmp_path / "models.yaml").write_text(MODELS + quantize)
    (tmp_path / "targets.yaml").write_text(TARGETS + TARGETS.splitlines()[-1].replace("there:", "int8:") + "\n")
    project_of = partial(_pack_project, tmp_path, link="gcc")
    (tmp_path / "targets.yaml").write_text((tmp_path / "targets.yaml").read_text()[:-2] + ", precision: int8}\n")
    write_bytes(layout.model_file("digits", "model.onnx"), b"floats")
    with pytest.raises(TvmbuildError, match="digits is not quantised yet"):
        project_of([("digits", "int8")])
    write_bytes(layout.model_file("digits", "quantised/model.onnx"), b"integers")
    assert project_of([("digits", "there")])["models/digits.onnx"] == b"floats"
    packed = project_of([("digits", "int8")])
    assert packed["models/digits.onnx"] == b"integers"
    assert "quantize" not in yaml.safe_load(packed["models.yaml"])["models"]["digits"]
    assert yaml.safe_load(packed["targets.yaml"])["targets"]["int8"]["precision"] == "int8"
    with pytest.raises(TvmbuildError, match="a float model for some of these cells"):
        project_of([("digits", "there"), ("digits", "int8")])


def test_operators_in_float32_travel_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    (tmp_path / "models.yaml").write_text(MODELS + "    keep: auto\n")
    spr = (
        "  spr: {kind: llvm, mcpu: sapphirerapids, mtriple: x86_64-linux-gnu, num-cores: 1, precision: [fp32, fp16]}\n"
    )
    (tmp_path / "targets.yaml").write_text(TARGETS + spr)
    write_bytes(layout.model_file("digits", "model.onnx"), b"floats")
    project_of = partial(_pack_project, tmp_path, link="gcc")
    with pytest.raises(TvmbuildError, match=r"digits@spr-fp16 in float32 are not chosen yet.*\n.*keep:digits@spr-fp16"):
        project_of([("digits", "spr-fp16")])
    write_json(layout.cell_file("digits", "spr-fp16", "kept.json"), {"nodes": ["conv", "sum"]})
    packed = project_of([("digits", "spr"), ("digits", "spr-fp16")])
    model = yaml.safe_load(packed["models.yaml"])["models"]["digits"]
    assert (model["keep"], model["targets"]) == (["conv", "sum"], {"include": ["spr", "spr-fp16"]})
    targets = yaml.safe_load(packed["targets.yaml"])["targets"]
    assert {name: each["precision"] for name, each in targets.items()} == {"spr": "fp32", "spr-fp16": "fp16"}
    assert "keep" not in yaml.safe_load(project_of([("digits", "spr")])["models.yaml"])["models"]["digits"]


def test_a_cell_that_does_not_exist(project: DoitProject) -> None:
    ran = project.tvmbuild("bundle", "digits@nowhere")
    assert ran.code == 1
    assert "no cell matches 'digits@nowhere'" in ran.output


def test_what_the_other_machine_has_is_left_out() -> None:
    needed = dict(line.split("==") for line in list_needed(frozenset({"NumPy"})))
    assert needed["apache-tvm"] == importlib.metadata.version("apache-tvm")
    assert {"apache-tvm-ffi", "doit", *DISTRIBUTIONS} <= needed.keys()
    assert not {"numpy", "onnxsim", "ziglang", "tvmbuild"} & needed.keys()


def test_packing_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle_site, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(bundle_site, "_download", lambda *_arguments: [tmp_path / "a.whl"])
    monkeypatch.setattr(bundle_site, "_add_wheel", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bundle_site.pack_site(tmp_path, "3.12", "x86_64", frozenset())
    assert list((tmp_path / "bundles").iterdir()) == []


def test_packing_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/library.so", bytes(3_000_000))
        archive.writestr("a/tests/unused.py", bytes(3_000_000))
    monkeypatch.setattr(bundle_site, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(bundle_site, "_download", lambda *_arguments: [wheel])
    monkeypatch.setattr(bundle_site, "EVERY_S", 0.0)
    said: list[str] = []
    with progress_shown_by(said.append):
        site = bundle_site.pack_site(tmp_path, "3.12", "x86_64", frozenset())
    assert said[0].startswith("compressing them")
    assert said[-1] == "compressed 3 of 3 MB"
    with tarfile.open(site) as packed:
        assert packed.getnames() == ["site/a/library.so"]


DOWNLOAD = """\
import os, sys, tempfile, time
open(tempfile.mkdtemp() + "/part", "wb").write(bytes(2_000_000))
if sys.argv[-1] == "fails==1":
    sys.exit("line\\nno such wheel")
time.sleep(60)
"""


def test_what_pip_leaves_lies_in_the_folder_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_site, "download_command", lambda *_arguments: [sys.executable, "-c", DOWNLOAD])
    monkeypatch.setattr(bundle_site, "EVERY_S", 0.2)
    said: list[str] = []

    def interrupt(text: str) -> None:
        said.append(text)
        if text == "downloaded 2 MB":
            raise KeyboardInterrupt

    with progress_shown_by(interrupt), pytest.raises(KeyboardInterrupt):
        bundle_site._download(tmp_path, ("works==1",), "3.12", "x86_64")
    assert list(tmp_path.rglob("part"))
    with (
        progress_shown_by(said.append),
        pytest.raises(TvmbuildError, match="cannot download the wheels: no such wheel"),
    ):
        bundle_site._download(tmp_path, ("fails==1",), "3.12", "x86_64")


BUSY = """\
import os, time
from pathlib import Path
child = os.fork()
try:
    time.sleep(60)
except KeyboardInterrupt:
    Path("child" if child == 0 else "parent").write_text("interrupted")
"""


@pytest.mark.parametrize("ignored", [False, True], ids=["terminal", "background"])
def test_when_the_time_is_up_its_workers_are_interrupted_too(tmp_path: Path, ignored: bool) -> None:
    shutil.copy(Path(bundle_site.__file__).parents[2] / "templates" / "bundle" / "run.py", tmp_path)
    for folder in ("site/tvmbuild", "project"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "site" / ".unpacked").touch()
    (tmp_path / "site" / "tvmbuild" / "__main__.py").write_text(BUSY)
    action = signal.SIG_IGN if ignored else signal.SIG_DFL  # a shell's background job ignores Ctrl-C
    before = signal.signal(signal.SIGINT, action)
    try:
        command = [sys.executable, "run.py", "--minutes", "0.1", "--no-benchmark"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "the time is up" in done.stdout, done.stderr
    assert {path.name for path in (tmp_path / "project").iterdir()} == {"parent", "child"}
    assert (tmp_path / "results.tar.gz").is_file()
