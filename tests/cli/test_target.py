from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tvmbuild.cli import target
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError

TARGETS = """
targets:
  me: {kind: llvm, mcpu: native, num-cores: 2}
  pc: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}
  gpu: {kind: vulkan, from_device: 77, host: {mtriple: x86_64-linux-gnu, num-cores: 2}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    (tmp_path / "models.yaml").write_text("models:\n  net: {source: {path: net.onnx}}\n")
    (tmp_path / "targets.yaml").write_text(TARGETS)
    return tmp_path


@pytest.mark.compiler
def test_lock_resolves_native(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_project(root).targets[0].unresolved is not None
    monkeypatch.chdir(root)
    (root / "tvm.py").write_text("raise SystemExit('the project shadows TVM')")
    parser = argparse.ArgumentParser()
    target.add_arguments(parser)
    assert target.run(parser.parse_args(["lock", "me"])) == 0
    assert capsys.readouterr().out.startswith("wrote records/me/target.lock.json\n")
    me = load_project(root).targets[0]
    attributes = dict(me.attributes)
    assert me.unresolved is None
    assert attributes["mcpu"] not in ("native", "")
    assert str(attributes["mtriple"]).count("-") >= 2
    first = (root / "records/me/target.lock.json").read_bytes()
    target.lock_target(root, "me")
    assert (root / "records/me/target.lock.json").read_bytes() == first


@pytest.mark.compiler
def test_lock_of_an_absent_device(root: Path) -> None:
    with pytest.raises(TvmbuildError, match="this machine, or this TVM, has no device vulkan:77"):
        target.lock_target(root, "gpu")
    assert not (root / "records").exists()


def test_the_project_is_found_upwards(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "inner").mkdir()
    monkeypatch.chdir(root / "inner")
    with pytest.raises(TvmbuildError, match="the target pc states all its attributes"):
        target.run(argparse.Namespace(name="pc"))


def test_nothing_to_lock(root: Path) -> None:
    with pytest.raises(TvmbuildError, match="the target pc states all its attributes: there is nothing to lock"):
        target.lock_target(root, "pc")


@pytest.mark.parametrize(
    ("name", "hint"), [("gpv", 'did you mean "gpu"?'), ("zzzz", "targets.yaml has me, pc and gpu")]
)
def test_unknown_target(name: str, hint: str, root: Path) -> None:
    with pytest.raises(TvmbuildError) as caught:
        target.lock_target(root, name)
    assert caught.value.message == f"targets.yaml has no target {name}"
    assert caught.value.hint == hint
