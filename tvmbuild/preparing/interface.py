"""The check that a tool left a model's inputs and outputs as they were."""

from __future__ import annotations

from typing import Any

from tvmbuild.preparing.onnx_graph import MAX_BYTES, graph_inputs


def explain_changed_interface(original: Any, changed: Any, tool: str) -> str | None:
    """Return why the tool's model cannot replace the original (names, operators, size), or None if it can."""
    if changed.ByteSize() > MAX_BYTES:
        return "it would exceed 2 GB"
    for what, got, want in (
        ("inputs", graph_inputs(changed), graph_inputs(original)),
        ("outputs", changed.graph.output, original.graph.output),
    ):
        if [value.name for value in got] != [value.name for value in want]:
            return f"{tool} changed the {what} to {', '.join(value.name for value in got) or 'none'}"
    new = {node.domain for node in changed.graph.node} - {node.domain for node in original.graph.node}
    if new - {"", "ai.onnx"}:
        return f"{tool} brought in operators of {', '.join(sorted(new))}"
    return None


def restore_interface(original: Any, changed: Any) -> None:
    """Write the types of the original's inputs and outputs into those of a changed model, by name, in place.

    onnxsim may write dimensions with names over an input whose Reshape it drops.
    """
    for got, want in ((changed.graph.input, original.graph.input), (changed.graph.output, original.graph.output)):
        types = {value.name: value.type for value in want}
        for value in got:
            if value.name in types:
                value.type.CopyFrom(types[value.name])
