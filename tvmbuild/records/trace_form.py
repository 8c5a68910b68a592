"""The JSON form that a trace must have before TVM reads it, because TVM 0.27 crashes on some other forms."""

from __future__ import annotations

NULLABLE = frozenset({"TransformLayout"})
"""The instructions that may have a null attribute (the padding). In any other instruction TVM would dereference a null.
"""


def check_trace(trace: object) -> None:
    """Raise ValueError if ``trace`` does not have this form. TVM itself checks whether its instructions make sense.

    The keys are ``instructions``, a list of [name, inputs, attributes, outputs], and ``decisions``, a list of [index of
    an instruction, value].
    """
    if not isinstance(trace, dict) or set(trace) != {"decisions", "instructions"}:
        raise ValueError("a trace is not an object of instructions and decisions")
    instructions, decisions = trace["instructions"], trace["decisions"]
    if [type(instructions), type(decisions)] != [list, list]:
        raise ValueError("a trace's instructions or decisions are not a list")
    for number, instruction in enumerate(instructions):
        if not _is_instruction(instruction):
            raise ValueError(f"instruction {number} of a trace is not [name, inputs, attributes, outputs]")
    for decision in decisions:
        if not isinstance(decision, list) or len(decision) != 2 or not _is_index(decision[0], len(instructions)):
            raise ValueError("a decision of a trace is not [index of an instruction, value]")


def _is_instruction(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[0], str):
        return False
    name, *lists = value
    if not all(isinstance(entries, list) for entries in lists):
        return False
    inputs, attributes, outputs = lists
    return (
        None not in inputs
        and (name in NULLABLE or None not in attributes)
        and all(isinstance(output, str) for output in outputs)
    )


def _is_index(value: object, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end
