"""The notes on a model's open dimensions: the batch that simplify assumed, or would assume, and sizes still missing."""

from __future__ import annotations

import json

from tvmbuild.base.open_dimensions import BATCH_TAKEN, ask_for, list_open, settle
from tvmbuild.base.steps import AnyStep, SimplifyStep, Step, has_options
from tvmbuild.engine.onnx_inputs import read_inputs


def recall_batch(step: AnyStep) -> list[str]:
    """Return simplify's note of a batch that it assumed, or an empty list for other steps."""
    if not has_options(step, SimplifyStep):
        return []
    try:
        notes = json.loads(step.output("info").read_text(encoding="utf-8"))["notes"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [note for note in notes if str(note).startswith(BATCH_TAKEN)]


def foresee_inputs(step: Step[SimplifyStep]) -> list[str]:
    """Return the notes that a run of simplify would make about the inputs, or an empty list if the file is not here."""
    options, source = step.options, step.inputs.get("source")
    if source is None:
        return []
    settled = settle(read_inputs(source), options.inputs)
    constants = {spec.name for spec in options.inputs if spec.value is not None}
    fed = {name: shape for name, shape in settled.shapes.items() if name not in constants}
    taken = settled.describe(options.model)
    asked = ask_for(fed, options.model) if list_open(fed) else None
    return [*([taken] if taken else []), *([f"{asked.message}; {asked.hint}"] if asked else [])]
