"""Drawn networks with drawn sizes: the package gives the original's results at each size, and between them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import Size, Sizes, sort_sizes
from tvmbuild.base.specs import InputSpec, SimplifyOptions, fix_inputs_at
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.building.sizes import Varying, join_packages
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session
from tvmbuild.preparing.reference import run_onnx
from tvmbuild.preparing.simplify import simplify
from tvmbuild.preparing.sizes import Padding, SizedModel, find_padding

pytestmark = pytest.mark.compiler

WIDTH = 24
ALONG_ROWS = ("matmul", "bias", "Relu", "Softmax", "Tanh", "norm")
"""Operators that compute each row on its own."""
ACROSS = ("mean", "attention", "shift", "batch mean")
"""Operators that mix rows: the first three along T, the last along the batch."""


@dataclass(frozen=True)
class Drawn:
    """A network x [B, T, WIDTH] → y, and its sizes."""

    kinds: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    padded: bool
    """True if `pad` asks for lengths between the sizes."""


def draw_networks() -> st.SearchStrategy[Drawn]:
    kinds = st.lists(st.sampled_from([*ALONG_ROWS, *ALONG_ROWS, *ACROSS]), min_size=1, max_size=4).map(tuple)
    sizes = st.lists(st.tuples(st.integers(1, 4), st.integers(2, 9)), min_size=1, max_size=3, unique=True).map(tuple)
    return st.builds(Drawn, kinds, sizes, st.booleans())


def write_network(path: Path, kinds: tuple[str, ...]) -> None:
    random = np.random.RandomState(len(kinds))
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {"axis": np.array([1])}
    last = "x"

    def add(kind: str, *others: str, **attributes: object) -> None:
        nonlocal last
        nodes.append(helper.make_node(kind, [last, *others], [f"v{len(nodes)}"], **attributes))
        last = nodes[-1].output[0]

    for number, kind in enumerate(kinds):
        weights[f"w{number}"] = random.uniform(-0.4, 0.4, (WIDTH, WIDTH)).astype(np.float32)
        weights[f"b{number}"] = random.uniform(-1, 1, WIDTH).astype(np.float32)
        before = last
        if kind == "matmul":
            add("MatMul", f"w{number}")
        elif kind == "bias":
            add("Add", f"b{number}")
        elif kind == "norm":
            add("LayerNormalization", f"b{number}", axis=-1)
        elif kind == "mean":
            add("ReduceMean", axes=[1], keepdims=1)
            add("Add", before)
        elif kind == "batch mean":
            add("ReduceMean", axes=[0], keepdims=1)
            add("Add", before)
        elif kind == "attention":
            add("Transpose", perm=[0, 2, 1])
            nodes.append(helper.make_node("MatMul", [before, last], [f"v{len(nodes)}"]))
            last = nodes[-1].output[0]
            add("Softmax", axis=-1)
            add("MatMul", before)
        elif kind == "shift":
            add("Neg")
            nodes.append(helper.make_node("Concat", [before, last], [f"v{len(nodes)}"], axis=2))
            last = nodes[-1].output[0]
            add("Slice", "start", "end", "last")
            weights |= {"start": np.array([5]), "end": np.array([5 + WIDTH]), "last": np.array([2])}
        else:
            add(kind)
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", WIDTH])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def make_sizes(drawn: Drawn) -> Sizes:
    shapes = FrozenMap({"x": ("B", "T", WIDTH)})
    choices = sort_sizes(shapes, [Size(FrozenMap({"B": b, "T": t})) for b, t in drawn.sizes])
    return Sizes(shapes, choices, FrozenMap({"x": 0.0}) if drawn.padded else FrozenMap())


def build(path: Path, sizes: Sizes) -> Padding:
    """Build the package `net.tar` beside the model, and return the padding that was found to be harmless."""
    inputs, options = (InputSpec("x"),), SimplifyOptions()
    simplified = {size: simplify(path, fix_inputs_at(inputs, sizes, size), options, "net") for size in sizes.choices}
    model = SizedModel(path, "net", inputs, sizes, options)
    padding = find_padding(model, {size: each.reference for size, each in simplified.items()})
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 2}))
    packages = [
        (size, build_package(each.model, target, options=BuildOptions("net"))) for size, each in simplified.items()
    ]
    write_package(path.with_name("net.tar"), join_packages(packages, Varying(sizes, padding.outputs, padding.letters)))
    return padding


def require(text: str, part: str) -> None:
    assert part in text


@settings(max_examples=draws(4), deadline=None)
@given(draw_networks())
def test_drawn_networks_give_the_originals_results(drawn: Drawn) -> None:
    mixes = {"mean", "attention"} & {*drawn.kinds}
    with TemporaryDirectory() as folder:
        path, sizes = Path(folder, "net.onnx"), make_sizes(drawn)
        write_network(path, drawn.kinds)
        if drawn.padded and mixes:
            try:
                padding = build(path, sizes)
            except TvmbuildError as error:
                refused = error.message
            else:
                refused = ""  # a later operator may hide the difference
            if refused:
                require(refused, "inputs that are padded along T give other results")
                return
        else:
            padding = build(path, sizes)
        assert ("T" in padding.letters) <= drawn.padded
        assert "B" in padding.letters or "batch mean" in drawn.kinds
        original = path.read_bytes()
        with Session(path.with_name("net.tar"), threads=2) as session:
            for size in sizes.choices:
                top = size.values
                for b, t in {(top["B"], top["T"]), (max(1, top["B"] - 1), top["T"]), (top["B"], max(1, top["T"] - 1))}:
                    x = np.random.default_rng(b * 100 + t).uniform(-1, 1, (b, t, WIDTH)).astype(np.float32)
                    want = run_onnx(original, {"x": x}, "net")["y"]
                    takes = all(
                        value == top[letter] or letter in padding.letters for letter, value in (("B", b), ("T", t))
                    )
                    if not takes and (b, t) not in drawn.sizes:
                        continue
                    got = session.run({"x": x})["y"]
                    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
