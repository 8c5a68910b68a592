"""Transposed convolutions with any attributes become convolutions with ONNX Runtime's numbers, on CPUs and GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from vulkan_devices import HOST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.compiler
Attributes = dict[str, Any]
TOGETHER = 6
"""The transposed convolutions in one network: a test spends most of its time on building one."""
FEW = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
"""The settings without shrinking: a failure is reported as drawn, because shrinking takes minutes."""
CASES: list[Attributes] = [
    {"kernel": (3, 3), "groups": 2, "own": 3, "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    {"kernel": (4, 4), "groups": 1, "own": 5, "strides": [2, 2], "output_shape": [8, 11]},
    {"kernel": (3, 3), "groups": 1, "own": 5, "strides": [3, 2], "auto_pad": "SAME_UPPER"},
    {"kernel": (3, 3), "groups": 8, "own": 1, "strides": [2, 1], "dilations": [2, 1], "pads": [1, 0, 2, 1]},
    {"kernel": (1, 2), "groups": 2, "own": 2, "strides": [2, 3]},
    {"kernel": (5, 2), "groups": 4, "own": 1, "strides": [1, 1], "dilations": [2, 3], "pads": [3, 1, 0, 2]},
    {"kernel": (3, 3), "groups": 1, "own": 4, "strides": [2, 2], "dilations": [3, 2], "computed": True},
    {"kernel": (3, 2), "groups": 2, "own": 3, "strides": [2, 2], "pads": [5, 4, 3, 2]},
    {"kernel": (5,), "groups": 4, "own": 2, "strides": [4], "pads": [2, 1], "output_padding": [2]},
    {"kernel": (2, 3, 2), "groups": 2, "own": 2, "strides": [2, 1, 2], "pads": [0, 1, 1, 0, 1, 0]},
]


@st.composite
def draw_attributes(draw: st.DrawFn) -> Attributes:
    """Return the attributes of a transposed convolution of eight channels."""
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))
    sizes = st.integers(1, 4 if rank < 3 else 2)
    kernel, strides, dilations = (tuple(draw(sizes) for _ in range(rank)) for _ in range(3))
    groups = draw(st.sampled_from([1, 1, 2, 4, 8]))
    found: Attributes = {"kernel": kernel, "strides": list(strides), "dilations": list(dilations), "groups": groups}
    found["own"], found["computed"] = draw(st.sampled_from([1, 2, 3, 4, 8, 11])), draw(st.booleans())
    way = draw(st.sampled_from(["pads", "pads", "SAME_UPPER", "SAME_LOWER", "output_shape"]))
    spread = [(extent - 1) * d + 1 for extent, d in zip(kernel, dilations, strict=True)]
    sizes_in = zip(SHAPES[rank][2:], strides, spread, strict=True)
    whole = [(extent - 1) * stride + each for extent, stride, each in sizes_in]
    if way == "pads":
        found["output_padding"] = [draw(st.integers(0, each - 1)) for each in strides]
        begins = [draw(st.integers(0, each - 1)) for each in whole]
        rest = zip(whole, begins, strict=True)
        found["pads"] = begins + [draw(st.integers(0, each - begin - 1)) for each, begin in rest]
    elif way == "output_shape":
        found["output_shape"] = [max(1, each - draw(st.integers(0, 3))) for each in whole]
    else:
        assume(all(each >= stride for each, stride in zip(spread, strides, strict=True)))
        found["auto_pad"] = way
    return found


def make_model(cases: list[Attributes]) -> bytes:
    """Return a network of transposed convolutions of its inputs x1, x2 and x3, which have that many spatial axes."""
    nodes, weights = [], []
    random = np.random.RandomState(3)
    for number, case in enumerate(cases):
        attributes = {**case}
        kernel, groups, own = (attributes.pop(name) for name in ("kernel", "groups", "own"))
        value, name = random.uniform(-1, 1, (8, own, *kernel)).astype("float32"), f"w{number}"
        weights.append(onnx.numpy_helper.from_array(value, name))
        if attributes.pop("computed", False):
            nodes.append(helper.make_node("Mul", [name, "one"], [f"m{number}"]))
            name = f"m{number}"
        data = f"x{len(kernel)}"
        nodes.append(helper.make_node("ConvTranspose", [data, name], [f"y{number}"], group=groups, **attributes))
    inputs = [helper.make_tensor_value_info("one", TensorProto.FLOAT, [1])]
    for rank, shape in SHAPES.items():
        inputs.append(helper.make_tensor_value_info(f"x{rank}", TensorProto.FLOAT, shape))
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(len(cases))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


SHAPES = {1: (2, 8, 5), 2: (2, 8, 4, 5), 3: (1, 8, 3, 2, 3)}


def compute(model: bytes) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the inputs, and ONNX Runtime's results."""
    random = np.random.RandomState(5)
    given = {f"x{rank}": random.uniform(-1, 1, shape).astype("float32") for rank, shape in SHAPES.items()}
    given["one"] = np.ones(1, "float32")
    session = onnxruntime.InferenceSession(model)
    names = [each.name for each in session.get_outputs()]
    return given, dict(zip(names, session.run(None, given), strict=True))


def compare(got: dict[str, np.ndarray], want: dict[str, np.ndarray], cases: list[Attributes]) -> None:
    for number, case in enumerate(cases):
        np.testing.assert_allclose(got[f"y{number}"], want[f"y{number}"], rtol=1e-4, atol=1e-5, err_msg=str(case))


def check(cases: list[Attributes], target: tvm.target.Target) -> None:
    model = make_model(cases)
    given, want = compute(model)
    lowered = lower(import_onnx(model), target)
    assert not [task.name for task in extract_tasks(lowered) if "conv2d_transpose" in task.name]
    compare(build_here(lowered, target)(given), want, cases)


def test_each_form_is_a_convolution_with_the_same_numbers(cpu: tvm.target.Target) -> None:
    check(CASES, cpu)


def draw_cases() -> st.SearchStrategy[list[Attributes]]:
    return st.lists(draw_attributes(), min_size=TOGETHER, max_size=TOGETHER)


@seed(39)
@settings(FEW, max_examples=2, database=None)
@given(cases=draw_cases())
def test_drawn_ones(cases: list[Attributes], cpu: tvm.target.Target) -> None:
    check(cases, cpu)


@pytest.mark.nightly
@settings(FEW, max_examples=20)
@given(cases=draw_cases())
def test_many_drawn_ones(cases: list[Attributes], cpu: tvm.target.Target) -> None:
    check(cases, cpu)


@pytest.mark.vulkan
def test_each_form_on_a_gpu(tmp_path: Path) -> None:
    model = make_model(CASES)
    given, want = compute(model)
    target = PackageTarget("here", "vulkan", FrozenMap(sorted(FAMILIES["lavapipe"].items())), HOST)
    write_package(tmp_path / "net.tar", build_package(model, target, options=BuildOptions("net")))
    with Session(tmp_path / "net.tar") as session:
        compare(session.run({each.name: given[each.name] for each in session.inputs}), want, CASES)
