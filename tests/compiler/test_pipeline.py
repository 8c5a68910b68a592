from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper

from tvmbuild.compiler.bugs import last_line
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]


def test_the_layout_can_be_chosen_and_chosen_again(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    imported = import_onnx(save_convnet())
    nhwc, nchw = lower(imported, cpu), lower(imported, cpu, "NCHW")
    assert (nhwc.layout, nchw.layout) == ("NHWC", "NCHW")
    keys = [task.key for task in extract_tasks(nhwc)]
    assert keys == [task.key for task in extract_tasks(lower(imported, cpu, nhwc.layout))]
    assert set(keys).isdisjoint(task.key for task in extract_tasks(nchw))


def test_a_model_without_convolutions_has_no_layout_to_convert(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    assert lower(import_onnx(save_model([helper.make_node("Relu", ["x"], ["y"])])), cpu).layout == "NCHW"


def test_constants_are_folded(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [helper.make_node("Exp", ["w"], ["e"]), helper.make_node("Mul", ["x", "e"], ["y"])]
    lowered = lower(import_onnx(save_model(nodes, {"w": np.ones((3, 1, 1), "float32")})), cpu)
    assert [task.name for task in extract_tasks(lowered)] == ["multiply"]


def test_reshapes_are_no_tasks(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"]),
    ]
    names = [task.name for task in extract_tasks(lower(import_onnx(save_model(nodes)), cpu))]
    assert not any(name == "reshape" for name in names)
    assert any("softmax" in name for name in names)


@pytest.mark.parametrize(
    ("message", "note"),
    [
        ("", ""),
        ("Traceback\n  more\n\nInternalError: Check failed: x / y == 3\n", "InternalError: Check failed: x / y == 3"),
        ("at /home/ann/tvm/src/relax/layout.cc:12: no rule", "at layout.cc:12: no rule"),
        ('File "/tmp/a b/x.py", line 3; (/usr/lib/libtvm.so+0x7fA01)', 'File "x.py", line 3; (libtvm.so+0x…)'),
        ("<Object at 0x55d0c1f2a340> is no relax.Var of src/ir/a.cc", "<Object at 0x…> is no relax.Var of src/ir/a.cc"),
        ("y" * 300, "y" * 200),
    ],
)
def test_a_note_holds_no_address_and_no_folder(message: str, note: str) -> None:
    assert last_line(message) == note
