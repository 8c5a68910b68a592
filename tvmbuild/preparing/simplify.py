"""The simplification of a model with fixed shapes, where its numbers stay the same, and the reference numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import InputSpec, SimplifyOptions, Tolerance
from tvmbuild.compiler.importing.reading import name_nodes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.compare import Comparison
from tvmbuild.preparing.interface import explain_changed_interface, restore_interface
from tvmbuild.preparing.model_file import read_model
from tvmbuild.preparing.onnx_graph import set_output_shapes
from tvmbuild.preparing.onnxsim_process import simplify_in_process
from tvmbuild.preparing.original import open_original
from tvmbuild.preparing.reference import Reference, make_inputs, run_onnx
from tvmbuild.preparing.specials import asks_for_specials, insert_specials

DEFAULTS = SimplifyOptions()
GATE_SETS = 2
"""The gate compares on this many sets of inputs; the first is the reference."""


@dataclass(frozen=True)
class Simplified:
    """The simplified model, the original's numbers, and the facts of the simplification."""

    model: bytes
    """ONNX: simplified, or the original with the reason in ``notes``."""
    reference: Reference
    inputs: tuple[TensorInfo, ...]
    opset: dict[str, int]
    """Domain → version."""
    nodes: tuple[int, int]
    """The number of nodes before and after."""
    is_simplified: bool
    notes: tuple[str, ...]
    gate: Comparison | None
    """The difference of the simplified model's numbers from the original's; None if they were not compared."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value of `simplify.json`."""
        gate, (before, after) = self.gate, self.nodes
        return {
            "format": 1,
            "simplified": self.is_simplified,
            "notes": [*self.notes, *_list_not_finite(self.reference), *_list_empty(self.reference)],
            "gate": gate
            and {"max_abs_error": gate.max_abs_error, "max_rel_error": gate.max_rel_error, "sets": GATE_SETS},
            "inputs": [{"name": t.name, "shape": list(t.shape), "dtype": t.dtype} for t in self.inputs],
            "outputs": [
                {"name": name, "shape": list(value.shape), "dtype": str(value.dtype)}
                for name, value in self.reference.outputs.items()
            ],
            "opset": self.opset,
            "nodes": {"before": before, "after": after},
        }


@dataclass(frozen=True)
class _Outcome:
    model: bytes
    nodes: int
    simplified: bool
    notes: tuple[str, ...]
    gate: Comparison | None


def simplify(
    path: Path,
    inputs: Sequence[InputSpec] = (),
    options: SimplifyOptions = DEFAULTS,
    name: str | None = None,
    *,
    of_several_sizes: bool = False,
) -> Simplified:
    """Fix the model's shapes, run it under ONNX Runtime, simplify it and prove that its numbers stayed.

    If the model is one ``of_several_sizes``, nodes without a name get one first, so that operators have the same names
    at all sizes, although some disappear from smaller ones. TvmbuildError for a file that is not a whole model, for
    inputs that do not fit, and for a model that ONNX Runtime cannot run; messages call the model ``name``, by default
    its file's name.
    """
    said = name or path.name
    loaded = read_model(path, said)
    source_nodes = len(loaded.graph.node)
    if of_several_sizes:
        name_nodes(loaded)
    original = open_original(loaded, inputs, said, options.seed)
    report_progress("running the original model")
    references = original.compute(_draw(original.tensors, inputs, options.seed))
    report_progress("measuring what rounding changes")
    measured = [original.measure_rounding(each) for each in references]
    references = [reference for reference, _ in measured]
    failures = dict.fromkeys(note for _, notes in measured for note in notes)
    proto = original.proto
    if asks_for_specials(proto):
        references += original.compute([insert_specials(references[0].inputs, options.seed)])
        references[0] = replace(references[0], specials=references[-1])
    original.check(references[0], references[0].allow(_tolerance(options)))
    set_output_shapes(proto, dict(references[0].outputs))
    outcome = _simplify(proto, references, options)
    return Simplified(
        model=outcome.model,
        reference=references[0],
        inputs=original.tensors,
        opset={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
        nodes=(source_nodes, outcome.nodes),
        is_simplified=outcome.simplified,
        notes=(*original.notes, *failures, *outcome.notes),
        gate=outcome.gate,
    )


def _draw(tensors: Sequence[TensorInfo], inputs: Sequence[InputSpec], seed: int) -> list[dict[str, np.ndarray]]:
    return [make_inputs(tensors, inputs, seed + index) for index in range(GATE_SETS)]


def _tolerance(options: SimplifyOptions) -> Tolerance:
    return Tolerance(rtol=options.rtol, atol=options.atol)


def _simplify(proto: Any, references: list[Reference], options: SimplifyOptions) -> _Outcome:
    original = proto.SerializeToString(deterministic=True)
    nodes = len(proto.graph.node)
    if not options.enabled:
        return _Outcome(original, nodes, simplified=False, notes=("simplification is switched off",), gate=None)
    report_progress("simplifying")
    simplified, trouble = simplify_in_process(original, options.skip)
    if simplified is None:
        return _Outcome(original, nodes, simplified=False, notes=(f"not simplified: {trouble}",), gate=None)
    trouble = explain_changed_interface(proto, simplified, "onnxsim")
    if trouble is not None:
        return _Outcome(original, nodes, simplified=False, notes=(f"not simplified: {trouble}",), gate=None)
    restore_interface(proto, simplified)
    report_progress("comparing the simplified model with the original")
    data = simplified.SerializeToString(deterministic=True)
    tolerance = _tolerance(options)
    try:
        gates = [each.compare(run_onnx(data, each.inputs, "the simplified model"), tolerance) for each in references]
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


def _list_not_finite(reference: Reference) -> list[str]:
    return [
        f"the reference output {name} has values that are not finite"
        for name, value in reference.outputs.items()
        if value.dtype.kind == "f" and not np.isfinite(value).all()
    ]


def _list_empty(reference: Reference) -> list[str]:
    return [
        f"the reference output {name} has no elements, which proves little: state the `range:` of inputs with which "
        "the model finds something, or give real inputs under `accuracy:`"
        for name, value in reference.outputs.items()
        if value.size == 0
    ]
