"""One error reports all nodes that cannot be built, each with its reason and what to export instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.importing.refusals import MAX_TOLD
from tvmbuild.errors import TvmbuildError


def refuse(
    *nodes: onnx.NodeProto, weights: dict[str, np.ndarray] | None = None, tensors: Sequence[onnx.TensorProto] = ()
) -> TvmbuildError:
    """Return the error of importing nodes that compute y from x."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    y = helper.make_empty_tensor_value_info("y")
    constants = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    domains = {node.domain for node in nodes} - {""}
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    graph = helper.make_graph(list(nodes), "net", [x], [y], [*constants, *tensors])
    with pytest.raises(TvmbuildError) as caught:
        import_model(helper.make_model(graph, opset_imports=imports, ir_version=8), "net")
    return caught.value


def node(operator: str, inputs: str, output: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], name, **attributes)


def test_all_of_a_model() -> None:
    """An expansion, a converter, TVM, the list of refusals and an unknown operator each refuse one node."""
    error = refuse(
        node("RandomNormalLike", "x", "found", "which"),
        node("MatMulNBits", "x b s", "m", "bits", domain="com.microsoft", K=4, N=4, bits=4, block_size=16),
        node("Dropout", "x half yes", "n", "drop"),
        node("EyeLike", "n", "e", "eye", dtype=7),
        node("Mystery", "e", "z", "riddle", domain="org.example"),
        node("Sum", "x z m", "s"),
        node("Cast", "found", "f", to=TensorProto.FLOAT),
        node("MatMul", "f s", "y"),
        weights={
            "b": np.zeros((4, 1, 8), "uint8"),
            "s": np.ones(4, "float32"),
            "half": np.array(0.5, "float32"),
            "yes": np.array(True),
        },
    )
    first, *lines = error.message.splitlines()
    assert first == "net: 5 nodes cannot be built:"
    for line, said in zip(
        lines,
        (
            "  the operator RandomNormalLike (node 'which') cannot be built: its numbers are drawn at random",
            "  the operator MatMulNBits (node 'bits') of com.microsoft cannot be built: its weights have 4 bits",
            "  the operator Dropout (node 'drop') cannot be built: it drops values at random",
            "  TVM cannot import the operator EyeLike (node 'eye'): ValueError: dtype mismatch",
            "  the operator Mystery (node 'riddle') of org.example cannot be built: there is no code for it (replace",
        ),
        strict=True,
    ):
        assert line.startswith(said)
        assert line.endswith(")")
    assert error.hint == "replace them in the model as each line says"


def test_nodes_of_one_reason_share_a_line() -> None:
    nodes = [node("RandomNormalLike", "x", f"r{index}", f"noise{index}") for index in range(5)]
    error = refuse(*nodes, helper.make_node("Sum", [f"r{index}" for index in range(5)], ["y"]))
    assert error.message == (
        "net: the operator RandomNormalLike (nodes 'noise0', 'noise1', 'noise2' and 2 more) cannot be built: "
        "its numbers are drawn at random, and a package computes the same of the same inputs"
    )
    assert error.hint is not None
    assert "feed them as an input" in error.hint


def test_ten_lines_and_a_count() -> None:
    names = [f"Unknown{index}" for index in range(13)]
    nodes = [node(name, "x", name, domain="org.example") for name in names]
    *lines, last = refuse(*nodes, helper.make_node("Sum", names, ["y"])).message.splitlines()
    assert len(lines) == MAX_TOLD + 1
    assert last == "  and 3 more"


@pytest.mark.parametrize(
    ("operator", "domain"),
    [
        ("Conv", "com.microsoft.nchwc"),
        ("ReorderInput", "com.microsoft.nchwc"),
        ("Conv", "com.ms.internal.nhwc"),
        ("NhwcFusedConv", "com.microsoft"),
        ("NhwcMaxPool", "com.microsoft"),
    ],
)
def test_private_layouts(operator: str, domain: str) -> None:
    error = refuse(node(operator, "x", "y", domain=domain))
    assert error.message == (
        f"net: the operator {operator} (output 'y') of {domain} cannot be built: "
        "it is one of ONNX Runtime's private layouts: the model was saved at its highest optimisation level"
    )
    assert error.hint == "save it at ORT_ENABLE_EXTENDED, or take the model as it was before"


@pytest.mark.parametrize(
    "operator",
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"],
)
def test_random_numbers(operator: str) -> None:
    fed = operator.endswith("Like") or operator in {"Bernoulli", "Multinomial"}
    made = node(operator, "x", "r") if fed else node(operator, "", "r", shape=[2, 2])
    error = refuse(made, node("Cast", "r", "y", to=1))
    assert "drawn at random" in error.message
    assert "feed them as an input" in (error.hint or "")


@pytest.mark.parametrize("constant", [False, True])
def test_texts(*, constant: bool) -> None:
    texts = helper.make_tensor("t", TensorProto.STRING, [2], ["a", "b"])
    nodes = [node("StringNormalizer", "t", "n"), node("Equal", "t n", "y")]
    if constant:
        nodes = [helper.make_node("Constant", [], ["t"], value=texts), *nodes]
    error = refuse(*nodes, tensors=[] if constant else [texts])
    lines = [
        "StringNormalizer (output 'n') cannot be built: it works on texts",
        "Equal (output 'y') cannot be built: it works on texts",
    ]
    assert all(line in error.message for line in lines)
    assert ("Constant (output 't') cannot be built: its values are texts" in error.message) == constant
    assert "export the model without its text processing" in error.message


def test_a_loop_that_data_ends() -> None:
    values = [("i", TensorProto.INT64), ("on", TensorProto.BOOL), ("v", TensorProto.FLOAT)]
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in values]
    body = helper.make_graph(
        [node("Add", "v v", "w"), node("Less", "w limit", "go")],
        "body",
        inputs,
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("w", 1, [])],
    )
    start = node("ReduceMax", "x", "start", keepdims=0)
    loop = helper.make_node("Loop", ["", "yes", "start"], ["y"], "search", body=body)
    error = refuse(start, loop, weights={"yes": np.array(True), "limit": np.array(9, np.float32)})
    assert error.message.startswith("net: the operator Loop (node 'search') cannot be built: how often its body runs")


def test_a_branch_is_looked_into() -> None:
    branches = [
        helper.make_graph([node(operator, "x", name)], name, [], [helper.make_tensor_value_info(name, 1, [4, 4])])
        for operator, name in (("Mystery", "t"), ("Neg", "e"))
    ]
    yes = node("Cast", "s", "yes", to=TensorProto.BOOL)
    both = node("If", "yes", "y", then_branch=branches[0], else_branch=branches[1])
    error = refuse(node("ReduceMax", "x", "s", keepdims=0), yes, both)
    assert error.message == "net: the operator Mystery (output 't') cannot be built: there is no code for it"
