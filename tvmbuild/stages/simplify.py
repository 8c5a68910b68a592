"""simplify:M — fetch and check the source, fix shapes, simplify, and prove that the numbers stayed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import sha256_file, write_bytes, write_json
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.compare import Comparison, compare
from tvmbuild.preparing.onnx_graph import (
    MAX_BYTES,
    find_precision,
    fix_inputs,
    graph_inputs,
    load_model,
    set_output_shapes,
)
from tvmbuild.preparing.onnxsim_process import simplify_in_process
from tvmbuild.preparing.reference import Reference, make_inputs, run_onnx, write_reference
from tvmbuild.preparing.specials import asks_for_specials, insert_specials
from tvmbuild.progress import report_progress
from tvmbuild.sources.export import obtain_model
from tvmbuild.specs import SimplifyOptions, Tolerance
from tvmbuild.steps import SimplifyStep, Step

GATE_SETS = 2
"""The gate compares on this many sets of inputs; the first is the reference."""


@dataclass(frozen=True)
class _Outcome:
    """The model that goes on: simplified, or the original with the reason in ``notes``."""

    model: bytes
    nodes: int
    simplified: bool
    notes: tuple[str, ...]
    gate: Comparison | None


def run(step: Step[SimplifyStep]) -> None:
    """Publish model.onnx, reference.npz (the original model's outputs) and simplify.json."""
    options = step.options
    with obtain_model(options.source, step.root) as path, device_lock("local", exclusive=False):
        source_sha256 = sha256_file(path)
        proto = load_model(path, options.model)
        source_nodes = len(proto.graph.node)
        tensors = fix_inputs(proto, options.inputs, options.model)
        report_progress("running the original model")
        seeds = [options.simplify.seed + i for i in range(GATE_SETS)]
        inputs = [make_inputs(tensors, options.inputs, seed) for seed in seeds]
        references = _run_original(proto, inputs, options.model)
        if asks_for_specials(proto):
            special = insert_specials(inputs[0], options.simplify.seed)
            references += _run_original(proto, [special], options.model)
            references[0] = replace(references[0], specials=references[-1])
        set_output_shapes(proto, dict(references[0].outputs))
        outcome = _simplify(proto, references, options.simplify)
    write_bytes(step.output("model"), outcome.model)
    write_reference(step.output("reference"), references[0])
    info = _describe(outcome, tensors, references[0])
    info["source_sha256"] = source_sha256
    info["opset"] = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    info["nodes"] = {"before": source_nodes, "after": outcome.nodes}
    write_json(step.output("info"), info)


def _run_original(proto: Any, inputs: list[dict[str, np.ndarray]], model: str) -> list[Reference]:
    data, precision = _serialize(proto, model), find_precision(proto)
    return [Reference(feed, run_onnx(data, feed, f"{model}'s original model"), precision) for feed in inputs]


def _simplify(proto: Any, references: list[Reference], options: SimplifyOptions) -> _Outcome:
    original = proto.SerializeToString(deterministic=True)
    nodes = len(proto.graph.node)
    if not options.enabled:
        return _Outcome(original, nodes, simplified=False, notes=("simplification is switched off",), gate=None)
    report_progress("simplifying")
    simplified, trouble = simplify_in_process(original, options.skip)
    if simplified is None:
        return _Outcome(original, nodes, simplified=False, notes=(f"not simplified: {trouble}",), gate=None)
    trouble = _check_interface(proto, simplified)
    if trouble is not None:
        return _Outcome(original, nodes, simplified=False, notes=(f"not simplified: {trouble}",), gate=None)
    report_progress("comparing the simplified model with the original")
    data = simplified.SerializeToString(deterministic=True)
    tolerance = Tolerance(rtol=options.rtol, atol=options.atol).at_least(references[0].precision)
    try:
        gates = [compare(run_onnx(data, r.inputs, "the simplified model"), r.outputs, tolerance) for r in references]
    except TvmbuildError as error:
        return _Outcome(original, nodes, simplified=False, notes=(f"not simplified: {error.message}",), gate=None)
    worst = Comparison(
        max(g.max_abs_error for g in gates),
        max(g.max_rel_error for g in gates),
        next((g.problem for g in gates if g.problem), None),
    )
    if worst.problem is not None:
        notes = (f"not simplified: the simplified model differs from the original: {worst.problem}",)
        return _Outcome(original, nodes, simplified=False, notes=notes, gate=worst)
    return _Outcome(data, len(simplified.graph.node), simplified=True, notes=(), gate=worst)


def _check_interface(original: Any, simplified: Any) -> str | None:
    """Return what makes the simplified model unusable in the original's place, before any number is looked at."""
    if simplified.ByteSize() > MAX_BYTES:
        return "it would exceed 2 GB"
    for what, got, want in (
        ("inputs", graph_inputs(simplified), graph_inputs(original)),
        ("outputs", simplified.graph.output, original.graph.output),
    ):
        if [value.name for value in got] != [value.name for value in want]:
            return f"onnxsim changed the {what} to {', '.join(value.name for value in got) or 'none'}"
    new = {node.domain for node in simplified.graph.node} - {node.domain for node in original.graph.node}
    if new - {"", "ai.onnx"}:
        return f"onnxsim brought in operators of {', '.join(sorted(new))}"
    return None


def _describe(outcome: _Outcome, tensors: list[TensorInfo], reference: Reference) -> dict[str, object]:
    notes = list(outcome.notes)
    notes += [
        f"the reference output {name} has values that are not finite"
        for name, value in reference.outputs.items()
        if value.dtype.kind == "f" and not np.isfinite(value).all()
    ]
    gate = outcome.gate
    return {
        "format": 1,
        "simplified": outcome.simplified,
        "notes": notes,
        "gate": gate and {"max_abs_error": gate.max_abs_error, "max_rel_error": gate.max_rel_error, "sets": GATE_SETS},
        "inputs": [{"name": t.name, "shape": list(t.shape), "dtype": t.dtype} for t in tensors],
        "outputs": [
            {"name": name, "shape": list(value.shape), "dtype": str(value.dtype)}
            for name, value in reference.outputs.items()
        ],
    }


def _serialize(proto: Any, model: str) -> bytes:
    if proto.ByteSize() > MAX_BYTES:
        raise TvmbuildError(f"{model} is larger than 2 GB", "models that large are not supported")
    data: bytes = proto.SerializeToString(deterministic=True)
    return data
