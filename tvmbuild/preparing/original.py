"""The original model: its graph with the shapes of models.yaml, and its right outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import onnx

from tvmbuild.base.specs import InputSpec, Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.batch import Batch, find_batch
from tvmbuild.preparing.batch_check import explain_culprit, find_outputs
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.onnx_graph import MAX_BYTES, find_precision, fix_inputs, graph_inputs
from tvmbuild.preparing.open_inputs import take_batch
from tvmbuild.preparing.rebatch import rebatch
from tvmbuild.preparing.reference import Reference, make_inputs, make_references, open_onnx, run_onnx
from tvmbuild.preparing.rounding import SHAKES, measure_rounding


@dataclass(frozen=True)
class Original:
    """The graph ``proto`` to build; ``single`` gives the right outputs, sample by sample if there is a ``batch``."""

    proto: Any
    tensors: tuple[TensorInfo, ...]
    name: str
    single: Any
    batch: Batch | None = None
    notes: tuple[str, ...] = ()
    """The assumptions made about the inputs."""

    def compute(self, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[Reference]:
        """Return the right outputs for each of the feeds."""
        data, what = _serialize(self.single, self.name), f"{self.name}'s original model"
        way = [self.batch.apart] if self.batch else []
        return make_references(data, feeds, find_precision(self.proto), what, *way)

    def measure_rounding(self, reference: Reference) -> tuple[Reference, tuple[str, ...]]:
        """Return the reference with the movement of its outputs under rounding errors, and notes about it.

        A quantised reference is returned as it is.
        """
        if reference.precision not in SHAKES:
            return reference, ()
        data, what = _serialize(self.proto, self.name), f"{self.name} with changed inputs"
        load = partial(open_onnx, what=what, optimized=True)
        rounding = measure_rounding(data, reference.inputs, reference.outputs, reference.precision, load)
        return replace(reference, rounding=rounding.moved), rounding.notes

    def check(self, reference: Reference, tolerance: Tolerance) -> None:
        """Raise TvmbuildError, naming the node, if the graph of a batch gives other numbers than single samples."""
        if self.batch is None:
            return
        got = run_onnx(_serialize(self.proto, self.name), reference.inputs, self.name)
        problem = compare(got, reference.outputs, tolerance).problem
        if problem is not None:
            raise _explain(self, self.batch, reference.inputs, problem)


def open_original(proto: Any, specs: Sequence[InputSpec], name: str, seed: int) -> Original:
    """Return the model with its inputs static; changes ``proto``. TvmbuildError for specs that do not fit it."""
    batch = find_batch(proto, specs, name)
    taken = take_batch(graph_inputs(proto), proto.graph.output, specs, name)
    notes = (taken,) if taken else ()
    if batch is None:
        tensors = fix_inputs(proto, specs, name)
        return Original(proto, tuple(tensors), name, proto, notes=notes)
    sample = fix_inputs(proto, batch.single(specs), name)
    made = Original(rebatch(proto, batch), tuple(map(batch.widen, sample)), name, proto, batch, notes)
    feed = make_inputs(made.tensors, specs, seed)
    run_onnx(_serialize(proto, name), batch.pick(feed, 0), f"{name}'s original model")  # its own error comes first
    try:
        batch = find_outputs(proto, made.proto, batch, feed)
    except TvmbuildError as error:
        raise _explain(made, batch, feed, error.message) from error
    return replace(made, batch=batch)


def _explain(made: Original, batch: Batch, feed: Mapping[str, np.ndarray], problem: str) -> TvmbuildError:
    tolerance = Tolerance().at_least(find_precision(made.single))
    culprit = explain_culprit(made.single, batch, feed, tolerance) or problem
    return TvmbuildError(
        f"{made.name}: the ONNX file has a batch of 1, which cannot be changed to {batch.size}: {culprit}",
        "export the model with that batch or a dynamic first dimension, or leave the batch at 1 in `inputs:`",
    )


def _serialize(proto: onnx.ModelProto, model: str) -> bytes:
    if proto.ByteSize() > MAX_BYTES:
        raise TvmbuildError(f"{model} is larger than 2 GB", "models that large are not supported")
    data: bytes = proto.SerializeToString(deterministic=True)
    return data
