"""A model that the user's function makes: the causes of another run, its error messages, and its end with doit."""

from __future__ import annotations

import os
import signal
import time

import pytest
from doit_project import DODO, TARGETS, DoitProject, make_project, wait_until_gone

MODELS = """\
models:
  net:
    source:
      export: tools/export_net.py:make
      arguments: {width: 4, names: [x, y]}
      files: {weights: {path: weights.txt}}
"""
SCRIPT = """\
from layers import make_layer
from onnx import helper

def make(width, names, weights):
    nodes, tensors = make_layer(width, [float(line) for line in weights.read_text().split()])
    values = [helper.make_tensor_value_info(name, 1, [1, width]) for name in names]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
"""
LAYERS = """\
from onnx import helper

def make_layer(width, factor):
    return [helper.make_node("Mul", ["x", "factor"], ["y"])], [helper.make_tensor("factor", 1, [1], factor)]
"""
STEP = ["simplify:net"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, quick: bool) -> DoitProject:
    project = make_project(tmp_path_factory.mktemp("built"), quick)
    (project.root / "tools").mkdir()
    files = {
        "models.yaml": MODELS,
        "targets.yaml": TARGETS,
        "dodo.py": DODO,
        "tools/export_net.py": SCRIPT,
        "tools/layers.py": LAYERS,
        "tools/other.py": "",
        "weights.txt": "2.5\n",
    }
    for name, text in files.items():
        (project.root / name).write_text(text)
    ran = project.doit("simplify")
    assert ran.steps == STEP, ran.output
    return project


def model(project: DoitProject) -> bytes:
    return (project.root / "build/models/net/model.onnx").read_bytes()


def test_what_does_not_concern_it_runs_nothing(project: DoitProject) -> None:
    with (project.root / "models.yaml").open("a") as stream:
        stream.write("# a comment\n")
    (project.root / "tools/other.py").write_text("# a comment elsewhere\n")
    os.utime(project.root / "tools/export_net.py")
    ran = project.doit("simplify")
    assert (ran.code, ran.steps) == (0, []), ran.output


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "old", "new", "reason", "same"),
    [
        ("tools/export_net.py", "def make", "# a comment\ndef make", "input export changed: sha256", True),
        ("tools/layers.py", '"Mul"', '"Add"', "input imported layers.py changed: sha256", False),
        ("weights.txt", "2.5", "3.5", "input argument weights changed: sha256", False),
        ("models.yaml", "width: 4", "width: 5", "option.source.export.arguments.width: 4 -> 5", False),
        ("models.yaml", "[x, y]", "[x,  y]", "", True),
    ],
)
def test_a_change_of_what_it_is_made_from_runs_it(  # noqa: PLR0917 - a row of the table above
    project: DoitProject, name: str, old: str, new: str, reason: str, same: bool
) -> None:
    before = model(project)
    project.edit(name, old, new)
    told = project.tvmbuild("explain", "simplify:net").output
    assert reason in told
    ran = project.doit("simplify")
    assert ran.steps == (STEP if reason else []), ran.output
    assert (model(project) == before) is same
    assert not list((project.root / "tools").rglob("__pycache__"))  # bytecode would hide an edit within a second
    assert project.doit("simplify").steps == []


def test_a_failure_is_one_message_and_the_log_has_the_traceback(project: DoitProject) -> None:
    (project.root / "tools/layers.py").unlink()
    ran = project.doit("simplify")
    assert ran.failed == STEP
    assert "tools/export_net.py:1: in <module>: ModuleNotFoundError: No module named 'layers'" in ran.output
    assert "if it is yours, put it at tools/layers.py." in ran.output
    assert "Traceback" not in ran.output
    assert "Traceback" in (project.root / "build/logs/simplify.net.log").read_text()
    (project.root / "tools/layers.py").write_text(LAYERS)
    assert project.doit("simplify").steps == STEP


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_it_dies_with_doit(project: DoitProject, number: signal.Signals) -> None:
    text = "import subprocess\n" + SCRIPT
    slow = "    open('started', 'w').close()\n    subprocess.run(['sleep', '600'])\n    nodes"
    (project.root / "tools/export_net.py").write_text(text.replace("    nodes", slow, 1))
    process = project.start("simplify")
    deadline = time.monotonic() + 60
    while not (project.root / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert wait_until_gone(project.root) == []
    assert project.temporaries() == []
    (project.root / "tools/export_net.py").write_text(SCRIPT + "\n")
    assert project.doit("simplify").steps == STEP
