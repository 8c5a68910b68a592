"""Depthwise convolutions that add up columns by a dot instruction, and their results against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from quantised_graphs import IN_SCALE, OUT_SCALE, Network, compute, run_optimized
from tvm import tirx

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import list_blocks
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, COLUMNS, find_instruction
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.rules import schedule_function

pytestmark = pytest.mark.compiler


def describe(cpu: str) -> tvm.target.Target:
    return tvm_target("llvm", FrozenMap({"mcpu": cpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap())


FORMS: dict[str, dict[str, Any]] = {
    "3x3": {"kernel": (3, 3), "size": (28, 28), "pads": [1, 1, 1, 1]},
    "rows and columns of a prime": {"kernel": (3, 3), "size": (13, 37), "pads": [1, 1, 1, 1]},
    "fewer columns than a window": {"kernel": (3, 3), "size": (5, 1), "pads": [1, 1, 1, 1]},
    "one row": {"kernel": (3, 3), "size": (1, 40), "pads": [1, 1, 1, 1]},
    "no padding": {"kernel": (3, 3), "size": (12, 18)},
    "padding of one side": {"kernel": (3, 3), "size": (9, 20), "pads": [2, 0, 0, 1]},
    "two words a row": {"kernel": (5, 5), "size": (14, 24), "pads": [2, 2, 2, 2]},
    "two words, every other pixel": {"kernel": (5, 5), "size": (20, 40), "pads": [2, 2, 2, 2], "strides": [2, 2]},
    "seven columns": {"kernel": (7, 7), "size": (10, 22), "pads": [3, 3, 3, 3]},
    "two columns": {"kernel": (2, 2), "size": (9, 21), "pads": [0, 0, 1, 1]},
    "every other row": {"kernel": (3, 3), "size": (16, 16), "pads": [1, 1, 1, 1], "strides": [2, 1]},
    "a row of five": {"kernel": (1, 5), "size": (3, 32), "pads": [0, 2, 0, 2]},
}
OTHERS: dict[str, dict[str, Any]] = {
    "every other pixel": {"kernel": (3, 3), "size": (16, 16), "pads": [1, 1, 1, 1], "strides": [2, 2]},
    "dilated": {"kernel": (3, 3), "size": (16, 16), "pads": [2, 2, 2, 2], "dilations": [2, 2]},
    "one word": {"kernel": (1, 3), "size": (3, 32), "pads": [0, 1, 0, 1]},
}


def make(form: dict[str, Any], channels: int = 32, zero: int = 117, *, extreme: bool = False) -> bytes:
    """Return a network of one depthwise convolution."""
    given = dict(form)
    kernel, size = given.pop("kernel"), given.pop("size")
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((channels, 1, *kernel), extreme=extreme)
    offset = net.offset(channels, scales, IN_SCALE)
    made = net.add("Conv", [net.round("x", IN_SCALE, zero), weights, offset], group=channels, **given)
    return net.finish(net.round(made, OUT_SCALE, 120), (1, channels, *size))


def list_functions(model: bytes, target: tvm.target.Target) -> list[tirx.PrimFunc]:
    functions = lower(import_onnx(model), target).mod.functions.items()
    return [function for variable, function in functions if "conv2d_int8" in variable.name_hint]


def names(function: tirx.PrimFunc) -> list[str]:
    """Return the instructions that the function's blocks name."""
    blocks = list_blocks(function)
    return [str(block.annotations[ANNOTATION]) for block in blocks if ANNOTATION in block.annotations]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORMS)
def test_numbers_are_those_of_onnx_runtime(name: str) -> None:
    model = make(FORMS[name])
    x = np.random.RandomState(1).uniform(-3, 3, (1, 32, *FORMS[name]["size"])).astype(np.float32)
    np.testing.assert_array_equal(compute(model, x), run_optimized(model, {"x": x})["y"])


@pytest.mark.parametrize("channels", [24, 58, 96])
def test_so_are_those_of_any_number_of_channels(channels: int) -> None:
    model = make(FORMS["3x3"], channels)
    x = np.random.RandomState(1).uniform(-3, 3, (1, channels, 28, 28)).astype(np.float32)
    np.testing.assert_array_equal(compute(model, x), run_optimized(model, {"x": x})["y"])


def test_sums_of_the_largest_weights_do_not_saturate() -> None:
    model = make(FORMS["3x3"], zero=0, extreme=True)
    x = np.full((1, 32, 28, 28), 255 * IN_SCALE, np.float32)
    np.testing.assert_array_equal(compute(model, x), run_optimized(model, {"x": x})["y"])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("cpu", ["alderlake", "znver4"])
@pytest.mark.parametrize("name", FORMS)
def test_they_are_added_up_by_the_instruction(name: str, cpu: str) -> None:
    target = describe(cpu)
    (function,) = list_functions(make(FORMS[name]), target)
    instruction = find_instruction(target)
    assert instruction is not None
    assert sorted(names(function)) == [COLUMNS, instruction.of_columns]
    script = schedule_function(function, describe_machine(target)).script()
    assert "vpdpbusd" in script


@pytest.mark.parametrize("name", OTHERS)
def test_what_gains_nothing_is_added_up_in_floats(name: str) -> None:
    (function,) = list_functions(make(OTHERS[name]), describe("znver4"))
    assert names(function) == []


@pytest.mark.parametrize("cpu", ["x86-64-v4", "x86-64-v3"])
def test_so_is_it_without_the_instruction(cpu: str) -> None:
    (function,) = list_functions(make(FORMS["3x3"]), describe(cpu))
    assert names(function) == []


@pytest.mark.parametrize("name", ["3x3", "two words a row"])
def test_a_machine_without_the_instruction_computes_the_same_module(name: str) -> None:
    """The command validate does this."""
    model = make(FORMS[name])
    x = {"x": np.random.RandomState(1).uniform(-3, 3, (1, 32, *FORMS[name]["size"])).astype(np.float32)}
    lowered = lower(import_onnx(model), describe("znver4"))
    got = build_here(lowered, describe("x86-64-v3"))(x)["y"]
    np.testing.assert_array_equal(got, compute(model, x["x"], host_target(threads=1)))
