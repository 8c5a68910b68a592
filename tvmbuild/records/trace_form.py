"""The form that a trace's JSON must have before TVM may see it: TVM 0.27 dereferences some wrong forms and crashes."""

from __future__ import annotations

NULLABLE = frozenset({"TransformLayout"})
"""The instructions with an attribute that may be null (the padding); in any other TVM takes a null for an object."""


def check_trace(trace: object) -> None:
    """Raise ValueError if ``trace`` has another form; TVM itself checks whether its instructions make sense.

    ``{"instructions": [[name, inputs, attributes, outputs]], "decisions": [[index of an instruction, value]]}``.
    """
    if not isinstance(trace, dict) or set(trace) != {"decisions", "instructions"}:
        raise ValueError("a trace is not an object of instructions and decisions")
    instructions, decisions = trace["instructions"], trace["decisions"]
    if [type(instructions), type(decisions)] != [list, list]:
        raise ValueError("a trace's instructions or decisions are no list")
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
