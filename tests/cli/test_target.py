from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tvmbuild.cli import main
from tvmbuild.cli.target import command
from tvmbuild.cli.target.boards import list_boards
from tvmbuild.cli.target.lock import lock_target
from tvmbuild.config import load_project
from tvmbuild.config.load import load_targets
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
    command.add_arguments(parser)
    assert command.run(parser.parse_args(["lock", "me"])) == 0
    assert capsys.readouterr().out.startswith("wrote records/me/target.lock.json\n")
    me = load_project(root).targets[0]
    attributes = dict(me.attributes)
    assert me.unresolved is None
    assert attributes["mcpu"] not in ("native", "")
    assert str(attributes["mtriple"]).count("-") >= 2
    first = (root / "records/me/target.lock.json").read_bytes()
    lock_target(root, "me")
    assert (root / "records/me/target.lock.json").read_bytes() == first


@pytest.mark.compiler
def test_lock_of_an_absent_device(root: Path) -> None:
    with pytest.raises(TvmbuildError, match="this machine, or this TVM, has no device vulkan:77"):
        lock_target(root, "gpu")
    assert not (root / "records").exists()


def test_the_project_is_found_upwards(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "inner").mkdir()
    monkeypatch.chdir(root / "inner")
    with pytest.raises(TvmbuildError, match="the target pc states all its attributes"):
        command.run(argparse.Namespace(action="lock", name="pc"))


def test_nothing_to_lock(root: Path) -> None:
    with pytest.raises(TvmbuildError, match="the target pc states all its attributes: there is nothing to lock"):
        lock_target(root, "pc")


@pytest.mark.parametrize(
    ("name", "hint"), [("gpv", 'did you mean "gpu"?'), ("zzzz", "targets.yaml has me, pc and gpu")]
)
def test_unknown_target(name: str, hint: str, root: Path) -> None:
    with pytest.raises(TvmbuildError) as caught:
        lock_target(root, name)
    assert caught.value.message == f"targets.yaml has no target {name}"
    assert caught.value.hint == hint


OWN = """\
targets: # mine
  pc: # the one under the desk
    kind: llvm
    mcpu: x86-64-v3
    mtriple: x86_64-linux-gnu
    num-cores: 2 # of eight
cache: {path: build/cache}
"""


@pytest.fixture
def inside(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's root, as the current folder."""
    monkeypatch.chdir(root)
    return root


def test_a_board_is_added_with_its_comments(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = inside
    (root / "targets.yaml").write_text(OWN)
    assert main(["target", "add", "pi5"]) == 0
    assert capsys.readouterr().out.endswith("next: doit '*@pi5'\n")
    text = (root / "targets.yaml").read_text()
    before, after = OWN.split("cache:")
    assert text.startswith(before)
    assert text.endswith(f"cache:{after}")
    assert "\n  pi5: # Raspberry Pi 5\n    kind: llvm\n" in text
    targets = load_targets(root)
    assert list(targets) == ["pc", "pi5"]
    assert targets["pi5"] == list_boards()["pi5"]
    assert load_project(root).cache is not None


@pytest.mark.parametrize("name", list(list_boards()))
def test_every_board_is_a_target(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "targets.yaml").write_text(OWN.rstrip())  # without the last newline
    assert main(["target", "add", name, "--as", "mine"]) == 0
    assert load_targets(root)["mine"] == list_boards()[name]
    assert [each.name for each in load_project(root).targets] == ["pc", "mine"]


def test_boards_are_those_of_the_shipped_matrix(project_root: Path) -> None:
    def code(data: dict[str, object]) -> dict[str, object]:
        return {key: value for key, value in data.items() if key not in {"enabled", "device", "tune"}}

    shipped, boards = load_targets(project_root), list_boards()
    same = {name: name for name in ("pi4", "pi5", "jetson-cpu", "armv7", "riscv64")}
    assert {name: code(boards[name]) for name in same} == {name: code(shipped[name]) for name in same}
    assert boards["nuc"]["family"] == shipped["nuc-vulkan"]["family"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("targets", "words", "message"),
    [
        (OWN, ["pi5", "--as", "pc"], "targets.yaml has a target pc"),
        (OWN, ["pi5", "--as", "My Pi"], "My Pi is not a name of a target"),
        (OWN, ["pi6"], "there is no target pi6"),
        ("targets: {pc: {kind: llvm, mcpu: native, num-cores: 2}}\n", ["pi5"], "is not in block style"),
        ("targets: [\n", ["pi5"], "targets.yaml:"),
    ],
)
def test_what_cannot_be_added_is_told_and_nothing_written(
    targets: str,
    words: list[str],
    message: str,
    inside: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (inside / "targets.yaml").write_text(targets)
    assert main(["target", "add", *words]) == 1
    assert message in capsys.readouterr().err
    assert (inside / "targets.yaml").read_text() == targets


@pytest.mark.parametrize(("word", "device"), [("cuda:sm_87", "none"), ("vulkan:amd-rdna", "none")])
def test_another_machines_code_has_no_device(word: str, device: str, inside: Path) -> None:
    (inside / "targets.yaml").write_text(OWN)
    assert main(["target", "add", word, "--as", "other"]) == 0
    assert load_targets(inside)["other"]["device"] == device


@pytest.mark.parametrize(("word", "near"), [("orin", "jetson-orin"), ("jetson", "jetson-orin"), ("pi6", "pi")])
def test_a_board_is_suggested(word: str, near: str, inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inside / "targets.yaml").write_text(OWN)
    assert main(["target", "add", word]) == 1
    assert f"Did you mean {near}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "last",
    [
        "    tune: *t\n",
        "    tune: *t\n    measured_on: emeraldrapids\n",
        "    tune: {trials: 3} # few\n",
        "    mattr:\n    - +avx2\n",
        "    mcpu: >-\n      x86-64-v3\ncache: {path: build/cache}\n",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_targets_before_stay_as_they_are(last: str, newline: str, inside: Path) -> None:
    common = "    kind: llvm\n    mtriple: x86_64-linux-gnu\n    num-cores: 2\n"
    first = f"  a:\n    mcpu: x86-64-v2\n{common}    tune: &t {{trials: 60}}\n    measured_on: haswell\n"
    mcpu = "" if "mcpu" in last else "    mcpu: x86-64-v3\n"
    text = f"targets:\n{first}  b:\n{mcpu}{common}{last}".replace("\n", newline)
    (inside / "targets.yaml").write_bytes(text.encode())
    before = load_targets(inside)
    assert main(["target", "add", "pi5"]) == 0
    assert load_targets(inside) == before | {"pi5": list_boards()["pi5"]}
    written = (inside / "targets.yaml").read_bytes().decode()
    assert set(text.splitlines()) <= set(written.splitlines())
    assert written.count("\r\n") == (written.count("\n") if newline == "\r\n" else 0)


def test_a_project_without_targets_is_told(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inside / "targets.yaml").unlink()
    assert main(["target", "add", "pi5"]) == 1
    assert "targets.yaml" in capsys.readouterr().err
