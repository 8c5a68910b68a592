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
from onnx import TensorProto, helper

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.nvrtc import DISTRIBUTIONS
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.cli.bundle import site as bundle_site
from tvmbuild.cli.bundle.command import _pack_project
from tvmbuild.cli.bundle.site import list_needed
from tvmbuild.config import load_project
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


def test_each_size_travels_as_a_model_of_its_own(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    varying = (
        "    inputs: {x: {shape: [B, T]}, k: {value: 3}}\n    sizes: {'B,T': [[1, 8], [2, 16]]}\n    pad: {x: 1}\n"
    )
    (tmp_path / "models.yaml").write_text(MODELS + varying)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    project_of = partial(_pack_project, tmp_path, link="gcc")
    write_bytes(layout.model_file("digits", "model.onnx"), b"large")
    with pytest.raises(TvmbuildError, match="digits is not simplified yet"):
        project_of([("digits", "there")])
    write_bytes(layout.model_file("digits", "sizes/B1-T8/model.onnx"), b"small")
    packed = project_of([("digits", "there")])
    assert (packed["models/digits-b1-t8.onnx"], packed["models/digits-b2-t16.onnx"]) == (b"small", b"large")
    for name, data in packed.items():
        write_bytes(tmp_path / "there" / name, data)
    models = {each.name: each for each in load_project(tmp_path / "there").models}
    shapes = {name: {each.name: each.shape for each in model.inputs} for name, model in models.items()}
    assert shapes == {"digits-b1-t8": {"x": (1, 8), "k": None}, "digits-b2-t16": {"x": (2, 16), "k": None}}
    assert all(each.sizes is None for each in models.values())


def _make_chain(*names: str) -> bytes:
    """Return a model of operators with these names, one after the other."""
    values = [f"v{index}" for index in range(len(names) + 1)]
    nodes = [
        helper.make_node("Relu", [first], [then], name=name)
        for name, first, then in zip(names, values, values[1:], strict=False)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in (values[0], values[-1])]
    return bytes(helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:])).SerializeToString())


def test_a_size_keeps_the_operators_that_it_has(tmp_path: Path) -> None:
    """A name that matches nothing would be an error on the other machine."""
    layout = Layout(tmp_path)
    (tmp_path / "models.yaml").write_text(
        MODELS + "    keep: auto\n    inputs: {x: {shape: [1, T]}}\n    sizes: {T: [4, 8, 16]}\n"
    )
    (tmp_path / "targets.yaml").write_text(
        TARGETS + TARGETS.splitlines()[-1].replace("there:", "fp16:").replace("none}", "none, precision: fp16}")
    )
    write_bytes(layout.model_file("digits", "sizes/T4/model.onnx"), _make_chain("other"))
    write_bytes(layout.model_file("digits", "sizes/T8/model.onnx"), _make_chain("other", "sum"))
    write_bytes(layout.model_file("digits", "model.onnx"), _make_chain("conv", "other", "sum"))
    write_json(layout.cell_file("digits", "fp16", "kept.json"), {"nodes": ["conv", "sum"]})
    models = yaml.safe_load(_pack_project(tmp_path, [("digits", "fp16")], link="gcc")["models.yaml"])["models"]
    kept = {name: model.get("keep") for name, model in models.items()}
    assert kept == {"digits-t4": None, "digits-t8": ["sum"], "digits-t16": ["conv", "sum"]}


@pytest.mark.parametrize("first", ["digits", "digits-t8"])
def test_a_size_with_the_name_of_another_model_is_refused(tmp_path: Path, first: str) -> None:
    layout, sized = Layout(tmp_path), "    inputs: {x: {shape: [1, T]}}\n    sizes: {T: [8, 16]}\n"
    other = "  digits-t8:\n    source: {path: digits.onnx}\n"
    (tmp_path / "models.yaml").write_text(MODELS + sized + other)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    for name in ("digits", "digits-t8"):
        for file in ("model.onnx", "sizes/T8/model.onnx"):
            write_bytes(layout.model_file(name, file), b"any")
    cells = sorted([("digits", "there"), ("digits-t8", "there")], key=lambda cell: cell[0] != first)
    for chosen in (cells, [("digits", "there")]):
        with pytest.raises(TvmbuildError, match="a size of digits would be called digits-t8 in the archive, as"):
            _pack_project(tmp_path, chosen, link="gcc")
    assert "models/digits-t8.onnx" in _pack_project(tmp_path, [("digits-t8", "there")], link="gcc")


def test_a_size_with_a_long_name_is_refused(tmp_path: Path) -> None:
    layout, name = Layout(tmp_path), "d" * 61
    models = MODELS.replace("digits:", f"{name}:") + "    inputs: {x: {shape: [1, T]}}\n    sizes: {T: [8, LAST]}\n"
    (tmp_path / "targets.yaml").write_text(TARGETS)
    for file in ("model.onnx", "sizes/T8/model.onnx"):
        write_bytes(layout.model_file(name, file), b"any")
    (tmp_path / "models.yaml").write_text(models.replace("LAST", "9"))
    assert f"models/{name}-t9.onnx" in _pack_project(tmp_path, [(name, "there")], link="gcc")
    (tmp_path / "models.yaml").write_text(models.replace("LAST", "16"))
    with pytest.raises(TvmbuildError, match=r"-t16 in the archive, which has more than 64 characters\n.*rename ddd"):
        _pack_project(tmp_path, [(name, "there")], link="gcc")


def test_operators_in_float32_travel_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    (tmp_path / "models.yaml").write_text(MODELS + "    keep: auto\n")
    spr = (
        "  spr: {kind: llvm, mcpu: sapphirerapids, mtriple: x86_64-linux-gnu, num-cores: 1, precision: [fp32, fp16]}\n"
    )
    (tmp_path / "targets.yaml").write_text(TARGETS + spr)
    write_bytes(layout.model_file("digits", "model.onnx"), _make_chain("conv", "other", "sum"))
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
