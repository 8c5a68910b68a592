"""The check that a graph gives the same for a batch as the original for each sample; it names the first wrong node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvmbuild.base.specs import Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.batch import Arrays, Batch, find_axis
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.onnx_graph import with_outputs
from tvmbuild.preparing.rebatch import find_dependent, rebatch
from tvmbuild.preparing.reference import open_onnx

_FEW = 2
"""The number of samples that reveals a node that mixes them or takes one for all."""


def find_outputs(single: Any, batched: Any, batch: Batch, feed: Arrays) -> Batch:
    """Return the batch with its output axes; TvmbuildError if the changed graph's outputs do not have its shape."""
    one = open_onnx(single.SerializeToString(), "it")(batch.pick(feed, 0))
    many = open_onnx(batched.SerializeToString(), "it")(feed)
    dependent, axes = find_dependent(single.graph, batch), {}
    for name, value in one.items():
        axis = find_axis(value.shape, many[name].shape, batch.size)
        if axis is not None:
            axes[name] = axis
        elif name in dependent or value.shape != many[name].shape:
            raise TvmbuildError(describe_shapes(name, many[name].shape, value.shape, batch.size))
    return replace(batch, outputs=axes)


def describe_shapes(name: str, many: Sequence[int], one: Sequence[int], size: int) -> str:
    """Describe the wrong shape of a tensor."""
    return f"{name} has the shape {list(many)} for a batch of {size}, {list(one)} for one sample"


def explain_culprit(single: Any, batch: Batch, feed: Arrays, tolerance: Tolerance) -> str | None:
    """Return the first node whose result for two samples differs from its results for each, and how; None if none."""
    few = replace(batch, size=_FEW)
    trial = _Trial(single, rebatch(single, few), few, _take_few(batch, feed), tolerance)
    nodes = trial.batched.graph.node
    good, bad = 0, len(nodes)
    if trial.explain(bad) is None:
        return None
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if trial.explain(middle) is None else (good, middle)
    node = nodes[bad - 1]
    name = node.name or f"that makes {node.output[0]}"
    return f"{node.op_type} {name}: {trial.explain(bad)}"


def _take_few(batch: Batch, feed: Arrays) -> dict[str, np.ndarray]:
    return {
        name: value.take(range(_FEW), batch.inputs[name]) if name in batch.inputs else value
        for name, value in feed.items()
    }


@dataclass(frozen=True)
class _Trial:
    single: Any
    batched: Any
    batch: Batch
    feed: Arrays
    tolerance: Tolerance

    def explain(self, count: int) -> str | None:
        """Return the error in the results of the first ``count`` nodes; None if there is none."""
        names = self._list_tensors(count)
        if not names:
            return None
        try:
            many = open_onnx(_cut(self.batched, count, names), "it")(self.feed)
        except TvmbuildError as error:
            return error.message
        run = open_onnx(_cut(self.single, len(self.single.graph.node), names), "the original model")
        apart = [run(self.batch.pick(self.feed, index)) for index in range(self.batch.size)]
        for name in names:
            problem = self._compare(name, many[name], [each[name] for each in apart])
            if problem is not None:
                return problem
        return None

    def _list_tensors(self, count: int) -> list[str]:
        dependent = find_dependent(self.single.graph, self.batch)
        made = [name for node in self.batched.graph.node[:count] for name in node.output]
        known = {name for node in self.single.graph.node for name in node.output}
        return [name for name in made if name in dependent and name in known]

    def _compare(self, name: str, got: np.ndarray, apart: list[np.ndarray]) -> str | None:
        axis = find_axis(apart[0].shape, got.shape, self.batch.size)
        if axis is None:
            return describe_shapes(name, got.shape, apart[0].shape, self.batch.size)
        return compare({name: got}, {name: np.concatenate(apart, axis)}, self.tolerance).problem


def _cut(proto: Any, count: int, names: list[str]) -> bytes:
    """Return the model of the first ``count`` nodes, with those tensors as its outputs."""
    cut = with_outputs(proto, names)
    del cut.graph.node[count:]
    data: bytes = cut.SerializeToString()
    return data
