"""Operators of quantised networks that stay in floats: groups, restored operators, the search."""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np
import onnx
import pytest
from debug_nets import Net
from onnx import TensorProto, helper, numpy_helper
from uneven_net import SAMPLES, make_net

from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.keep.choose import JudgeRun, KeepSearch, Run
from tvmbuild.preparing.keep.control import Control
from tvmbuild.preparing.keep.errors import OutputError
from tvmbuild.preparing.keep.groups import MOVERS, Group, find_dequantised, list_groups
from tvmbuild.preparing.keep.reduced import QuantisedModel
from tvmbuild.preparing.keep.restore import restore
from tvmbuild.preparing.keep.search import Judged, find_kept
from tvmbuild.preparing.quantisers.by_nncf import quantise as quantise_by_nncf
from tvmbuild.preparing.quantisers.by_onnxruntime import quantise
from tvmbuild.preparing.quantisers.quantiser import Work
from tvmbuild.preparing.reference import run_onnx


@pytest.fixture(scope="module")
def nets() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return the quantised net and the float one."""
    return quantise(Work(make_net(), SAMPLES, ())), make_net()


def test_a_group_is_a_product_with_what_follows(nets: tuple[onnx.ModelProto, onnx.ModelProto]) -> None:
    groups = {group.name: group for group in QuantisedModel(*nets).groups}
    assert [set(groups[name].nodes) & {"uneven", "second_sigmoid", "first", "third"} for name in groups] == [
        {"first"},
        {"uneven", "second_sigmoid"},
        {"third"},
    ]
    assert groups["third"].cost == 8 * 256 * (2 * 6 + 8 * 9)


def test_a_depthwise_convolution_saves_only_memory() -> None:
    net = Net(0, 1, 8, 16, 16)
    net.add("Conv", "x", net.weight(8, 1, 3, 3), out="deep", pads=[1] * 4, group=8)
    net.conv("deep", (8, 8, 1), "dense")
    deep, dense = list_groups(net.finish("dense"), {"deep", "dense"})
    assert (deep.cost, dense.cost) == (8 * 256 * 2 * 6, 8 * 256 * (2 * 6 + 8))


def test_operators_are_computed_from_unrounded_values(nets: tuple[onnx.ModelProto, onnx.ModelProto]) -> None:
    quantised, original = nets
    every = {name for group in QuantisedModel(*nets).groups for name in group.nodes}
    before = quantised.SerializeToString()
    restored = restore(quantised, original, every)
    assert quantised.SerializeToString() == before
    onnx.checker.check_model(restored, full_check=True)
    assert not [node for node in restored.graph.node if node.op_type.endswith("QuantizeLinear")]
    assert len(restored.graph.initializer) == len(original.graph.initializer)
    (got, want) = (run_onnx(net.SerializeToString(), SAMPLES[0], "net")["y"] for net in (restored, original))
    assert np.array_equal(got, want)


def test_some_operators_in_floats_leave_the_others_rounded(nets: tuple[onnx.ModelProto, onnx.ModelProto]) -> None:
    restored = restore(*nets, {"third"})
    onnx.checker.check_model(restored, full_check=True)
    makers = {name: node for node in restored.graph.node for name in node.output}
    inputs = {
        node.name: [makers[name].op_type for name in node.input if name in makers] for node in restored.graph.node
    }
    assert "DequantizeLinear" not in inputs["third"]
    assert "DequantizeLinear" in inputs["first"]


def test_a_product_behind_a_move_is_restored_alone() -> None:
    weights = {"w": np.full((4, 3, 1, 1), 0.5), "v": np.full((4, 4), 0.25), "u": np.full((4, 4), -0.25)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first"),
        helper.make_node("Transpose", ["c"], ["t"], "moved", perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["t", "v"], ["m"], "one"),
        helper.make_node("MatMul", ["t", "u"], ["n"], "other"),
        helper.make_node("Add", ["m", "n"], ["s"], "sum"),
        helper.make_node("Transpose", ["s"], ["y"], "back", perm=[0, 3, 1, 2]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 16, 16])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    original = onnx.ModelProto.FromString(net.SerializeToString())
    quantised = QuantisedModel(quantise(Work(net, SAMPLES, ())), original)
    assert not {"moved", "back"} & {name for group in quantised.groups for name in group.nodes}
    kept = quantised.build(frozenset({"one"}))
    onnx.checker.check_model(kept, full_check=True)
    integers = find_dequantised(kept)
    assert ("one" in integers, "other" in _list_behind_rounding(kept)) == (False, True)
    every = frozenset(name for group in quantised.groups for name in group.nodes)
    got, want = (
        run_onnx(each.SerializeToString(), SAMPLES[0], "net")["y"] for each in (quantised.build(every), original)
    )
    assert np.array_equal(got, want)


def _list_behind_rounding(proto: onnx.ModelProto) -> set[str]:
    """Return the nodes whose first input is rounded, perhaps before it is moved."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    found = set()
    for node in proto.graph.node:
        maker = makers.get(node.input[0])
        while maker is not None and maker.op_type in MOVERS:
            maker = makers.get(maker.input[0])
        found |= {node.name} if maker is not None and maker.op_type == "DequantizeLinear" else set()
    return found


def test_constants_of_nodes_are_those_of_the_float_model() -> None:
    pytest.importorskip("nncf")
    net = make_net()
    nodes = [helper.make_node("Constant", [], [each.name], each.name, value=each) for each in net.graph.initializer]
    kept = [*nodes, *(onnx.NodeProto.FromString(node.SerializeToString()) for node in net.graph.node)]
    del net.graph.node[:], net.graph.initializer[:]
    net.graph.node.extend(kept)
    original = onnx.ModelProto.FromString(net.SerializeToString())
    quantised = QuantisedModel(quantise_by_nncf(Work(net, SAMPLES, ())), original)
    every = frozenset(name for group in quantised.groups for name in group.nodes)
    got, want = (
        run_onnx(each.SerializeToString(), SAMPLES[0], "net")["y"] for each in (quantised.build(every), original)
    )
    assert np.array_equal(got, want)


def judge_by(limit: float) -> JudgeRun:
    errors = OutputError([run_onnx(make_net().SerializeToString(), each, "net") for each in SAMPLES])

    def judge(run: Run) -> Judged:
        error = errors.measure([run(each) for each in SAMPLES])
        return Judged(error < limit, f"error {error:.3g}")

    return judge


def test_the_operators_that_harm_are_found(nets: tuple[onnx.ModelProto, onnx.ModelProto]) -> None:
    search = KeepSearch(QuantisedModel(*nets), SAMPLES, judge_by(2e-3))
    choice = search.find()
    assert choice is not None
    assert [group.name for group in choice.groups] == ["second"]  # one channel's range is 20 000 times another's
    assert (choice.groups[0].harm or 0) > 0.2
    assert (choice.before.is_enough, choice.after.is_enough) == (False, True)
    assert choice.describe().startswith("`keep: auto` keeps 1 of 3 groups in floats, ")
    again = search.read(choice.to_json(), choice.after)
    assert (again.nodes, again.total) == (choice.nodes, 3)


def test_an_accuracy_that_no_rounding_keeps_is_told_from_operators_that_harm(
    nets: tuple[onnx.ModelProto, onnx.ModelProto],
) -> None:
    """The float model itself misses such a threshold if its inputs move by a fraction of a step."""
    limit = 1e-11
    choice = KeepSearch(QuantisedModel(*nets), SAMPLES, judge_by(limit)).find()
    assert choice is not None
    assert len(choice.groups) == choice.total
    _, told = choice.before.told.split("; the float model with inputs changed by up to 0.1% of their range: error ")
    assert float(told) > limit
    few = KeepSearch(QuantisedModel(*nets), SAMPLES, judge_by(2e-3)).find()
    assert few is not None
    assert "inputs changed" not in few.before.told


GROUPS = [Group(name, (name,), cost) for name, cost in (("a", 1.0), ("b", 8.0), ("c", 2.0), ("d", 4.0), ("e", 1.0))]


def search_for(needed: Collection[str], harm: dict[str, float]) -> tuple[set[str] | None, int]:
    """Search among GROUPS for a set that contains ``needed``."""

    def measure(kept: frozenset[str]) -> float:
        (quantised,) = {each.name for each in GROUPS} - kept
        return harm[quantised]

    found = find_kept(GROUPS, measure, lambda kept: Judged(set(needed) <= kept, f"{len(kept)}"))
    return (None, 0) if found is None else (set(found.kept), found.trials)


def test_groups_that_are_kept_in_vain_are_left_out() -> None:
    harm = {"a": 0.1, "b": 9.0, "c": 1.0, "d": 2.0, "e": 0.01}
    assert search_for((), harm) == (set(), 1)
    assert search_for("b", harm)[0] == {"b"}
    assert search_for("d", harm)[0] == {"d"}  # b harms more and comes first, but is not needed
    assert search_for("be", harm)[0] == {"b", "e"}
    assert search_for("z", harm)[0] is None


def test_small_columns_count_as_much_as_large_ones() -> None:
    want = np.stack([np.full(50, 400.0), np.full(50, 0.5)], axis=1)[None]
    errors = OutputError([{"y": want}])
    pixels, lost = want.copy(), want.copy()
    pixels[..., 0] += 4  # 1 % of a box
    lost[..., 1] = 0.0  # the probability
    assert errors.measure([{"y": pixels}]) == pytest.approx(0.01**2 / 2)
    assert errors.measure([{"y": lost}]) == pytest.approx(1 / 2)
    lost[0, 0, 0] = np.nan
    assert errors.measure([{"y": lost}]) == float("inf")
    assert errors.measure([{"y": want}]) == 0.0


def test_nncf_returns_operators_to_floats_until_it_is_enough() -> None:
    pytest.importorskip("nncf")
    errors = OutputError([run_onnx(make_net().SerializeToString(), each, "net") for each in SAMPLES])

    def judge(run: Run) -> Judged:
        error = errors.measure([run(each) for each in SAMPLES])
        return Judged(error < 2e-3, f"error {error:.3g}", (), 2e-3 - error)

    started, control = time.monotonic(), Control(judge, SAMPLES)
    quantised = quantise_by_nncf(Work(make_net(), SAMPLES, (), control))
    choice = control.describe(quantised, make_net(), started)
    assert "second" in [group.name for group in choice.groups]
    assert (choice.before.is_enough, choice.after.is_enough) == (False, True)
    assert choice.describe().startswith("NNCF keeps ")
    assert " of 3 groups in floats, " in choice.describe()
    assert "of the harm" not in choice.describe()


def test_a_float_model_that_misses_the_thresholds_is_not_quantised() -> None:
    pytest.importorskip("nncf")
    control = Control(lambda _: Judged(False, "rms 0", ("rms is 0, allowed is -1",), -1.0), SAMPLES)
    with pytest.raises(TvmbuildError, match="the float model misses its own thresholds: rms is 0, allowed is -1"):
        quantise_by_nncf(Work(make_net(), SAMPLES, (), control))
