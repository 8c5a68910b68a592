from __future__ import annotations

from contextlib import ExitStack
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from onnx import TensorProto, helper

from tvmbuild.benchmarking.measure import (
    ROUNDS,
    Turns,
    count_samples,
    is_steady,
    list_turns,
    measure_in_turns,
    plan_turns,
)
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.devices.watch import Watch


@pytest.mark.parametrize(
    ("call_ms", "number", "repeat", "samples"),
    [
        (1.0, 1, 50, 50),
        (400.0, 1, 50, 50),
        (1000.0, 1, 50, 20),
        (1000.0, 4, 50, 5),
        (60000.0, 1, 50, 5),
        (9e4, 1, 3, 5),
        (0.0, 1, 7, 7),
    ],
)
def test_slow_models_get_fewer_samples(call_ms: float, number: int, repeat: int, samples: int) -> None:
    assert count_samples(call_ms, number, repeat) == samples


@pytest.mark.parametrize(
    ("count", "stride", "each"),
    [(5, 4, 1), (6, 2, 1), (10, 2, 1), (11, 1, 1), (20, 1, 1), (21, 1, 2), (50, 1, 3), (1000, 1, 50)],
)
def test_samples_are_spread_over_the_rounds(count: int, stride: int, each: int) -> None:
    turns = plan_turns(count)
    assert (turns.stride, turns.samples) == (stride, each)


@pytest.mark.parametrize("strides", [(1, 1), (1, 2), (2, 2), (1, 4), (4, 2), (4, 4), (1, 2, 4)])
def test_any_two_meet_in_either_order_equally_often(strides: tuple[int, ...]) -> None:
    turns = {f"c{index}": Turns(stride, 1) for index, stride in enumerate(strides)}
    orders = [list_turns(turns, index) for index in range(ROUNDS)]
    for name, each in turns.items():
        assert [index for index, order in enumerate(orders) if name in order] == list(range(0, ROUNDS, each.stride))
    block = max(strides)
    for one, other in combinations(turns, 2):
        shared = [order.index(one) < order.index(other) for order in orders if {one, other} <= {*order}]
        # All blocks of rounds except the last come in pairs, forth and back.
        assert abs(2 * sum(shared) - len(shared)) <= block // max(turns[one].stride, turns[other].stride)
        assert 0 < sum(shared) < len(shared)


@pytest.mark.parametrize(
    ("medians", "steady"),
    [
        ([1.0, 1.0], False),
        ([1.0, 1.01, 1.02], True),
        ([1.0, 1.01, 1.05], False),
        ([9.0, 3.0, 1.0, 1.01, 0.99], True),
        ([1.0, 1.0, 1.0, 2.0], False),
    ],
)
def test_steady_is_what_no_longer_changes(medians: list[float], steady: bool) -> None:
    assert is_steady(medians) is steady


@pytest.fixture
def loads(tmp_path: Path) -> dict[str, Load]:
    """A matrix product, and the same eight times over, under ONNX Runtime."""
    inputs: dict[str, Any] = {"input:x": np.ones((128, 128), dtype=np.float32)}
    np.savez(tmp_path / "reference.npz", **inputs)
    found = {}
    for name, count in (("short", 1), ("long", 8)):
        names = ["x", *(f"y{index}" for index in range(count))]
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("MatMul", [a, a], [b]) for a, b in pairwise(names)],
            "net",
            [tensor("x", TensorProto.FLOAT, (128, 128))],
            [tensor(names[-1], TensorProto.FLOAT, (128, 128))],
        )
        path = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
        found[name] = Load("onnxruntime", path, tmp_path / "reference.npz", 1)
    return found


def test_workers_take_turns_and_are_left_paused(loads: dict[str, Load]) -> None:
    with ExitStack() as stack:
        workers = {name: stack.enter_context(start_worker(load)) for name, load in loads.items()}
        for worker in workers.values():
            worker.pause()
        measured = measure_in_turns(workers, 2, 30, Watch())
        assert {psutil.Process(worker.pid).status() for worker in workers.values()} == {psutil.STATUS_STOPPED}
    assert list(measured.samples) == ["short", "long"]
    for samples in measured.samples.values():
        assert samples.rounds == tuple(range(20))
        assert {len(row) for row in samples.ms} == {2}
        assert samples.number == 2
        assert np.array(samples.ms).min() > 0
    assert measured.machine.cores >= 1
    assert measured.machine.cpu
