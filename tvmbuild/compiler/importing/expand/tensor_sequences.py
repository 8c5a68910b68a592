"""Expansion of operators on sequences of tensors, which exporters write for chunk, unbind and lists.

The lengths and positions must be known. A known sequence is a SequenceConstruct, a SequenceEmpty or an Identity of a
known sequence. Every other operator on it becomes either one of these, or nodes on its tensors. Nothing reads the
sequences that remain at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import NodeProto, helper

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Rule, Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse

OPERATORS = frozenset(
    {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"}
    | {"SequenceLength", "SequenceMap", "SplitToSequence"}
)
"""The operators on sequences, which cannot be folded, because sequences are not arrays."""


def split_to_sequence(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand SplitToSequence to pieces of one size (the last may be smaller), of several sizes, or of one element.

    Return None if the shape or the sizes are unknown. Raises NodeError if the sizes do not fit the shape.
    """
    shape, attributes = scope.shape(node.input[0]), attributes_of(node)
    given = scope.constant(node.input[1]) if _has(node, 1) else np.array(1)
    if shape is None or given is None:
        return None
    axis = attributes.get("axis", 0) % len(shape)
    length = shape[axis]
    if given.ndim == 0:
        size = max(int(given), 1)
        sizes = [min(size, length - start) for start in range(0, length, size)]
    else:
        sizes = given.tolist()
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise refuse(node, f"its sizes {sizes} are not those of {length} elements", "correct its sizes")
    composer = Composer(scope, node.name or node.op_type)
    parts = composer.split(node.input[0], axis, sizes) if sizes else []
    if not _has(node, 1) and not attributes.get("keepdims", 1):
        parts = [composer.squeeze(part, [axis]) for part in parts]
    return composer.nodes + _construct(scope, node.output[0], parts)


def sequence_at(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand SequenceAt to one element; return None if the sequence or the position is unknown."""
    found = _find(node, scope, 1)
    if found is None:
        return None
    composer, (elements, place) = Composer(scope, node.name or node.op_type), found
    composer.name(elements[place], node.output[0])
    return composer.nodes


def sequence_insert(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand SequenceInsert: insert a tensor, at the end if no position is given.

    Return None if the sequence or the position is unknown.
    """
    found = _find(node, scope, 2, more=1)
    if found is None:
        return None
    elements, place = found
    return _construct(scope, node.output[0], [*elements[:place], node.input[1], *elements[place:]])


def sequence_erase(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand SequenceErase: remove a tensor, the last one if no position is given.

    Return None if the sequence or the position is unknown.
    """
    found = _find(node, scope, 1)
    if found is None:
        return None
    elements, place = found
    return _construct(scope, node.output[0], [*elements[:place], *elements[place + 1 :]])


def sequence_length(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand SequenceLength to the number of elements; return None if the sequence is unknown."""
    elements = scope.sequences.get(node.input[0])
    if elements is None:
        return None
    composer = Composer(scope, node.name or node.op_type)
    composer.name(composer.constant(np.array(len(elements), np.int64)), node.output[0])
    return composer.nodes


def concat_from_sequence(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand ConcatFromSequence: concatenate the elements along an existing or a new axis.

    Return None if the sequence is unknown or empty.
    """
    elements, attributes = scope.sequences.get(node.input[0]), attributes_of(node)
    if not elements:
        return None
    composer, axis = Composer(scope, node.name or node.op_type), attributes["axis"]
    join: Callable[[Sequence[str], int], str] = composer.stack if attributes.get("new_axis", 0) else composer.concat
    composer.name(join(elements, axis), node.output[0])
    return composer.nodes


def sequence_map(node: NodeProto, scope: Scope) -> Nodes | None:
    """Expand SequenceMap to a copy of its body for each element.

    The other inputs are the same for all copies, or sequences of equal length. Return None if an input is unknown.
    """
    count = len(scope.sequences.get(node.input[0], ()))
    if not all(name in scope.sequences or scope.shape(name) is not None for name in node.input):
        return None
    body, hint = attributes_of(node)["body"], node.name or node.op_type
    nodes, results = Nodes(), list[list[str]]()
    for index in range(count):
        elements = [scope.sequences[name][index] if name in scope.sequences else name for name in node.input]
        names = {value.name: name for value, name in zip(body.input, elements, strict=True)}
        nodes += scope.rename_into(body, names, hint)
        results.append([names.get(value.name, value.name) for value in body.output])
    for place, output in enumerate(node.output):
        nodes += _construct(scope, output, [each[place] for each in results])
    return nodes


RULES: Mapping[str, Rule] = {
    "ConcatFromSequence": concat_from_sequence,
    "SequenceAt": sequence_at,
    "SequenceErase": sequence_erase,
    "SequenceInsert": sequence_insert,
    "SequenceLength": sequence_length,
    "SequenceMap": sequence_map,
    "SplitToSequence": split_to_sequence,
}


def _construct(scope: Scope, output: str, elements: Sequence[str]) -> Nodes:
    """Return the node that makes the sequence ``output``, and store the elements of the sequence in the scope."""
    scope.sequences[output] = list(elements)
    operator = "SequenceConstruct" if elements else "SequenceEmpty"
    return [helper.make_node(operator, list(elements), [output])]


def _find(node: NodeProto, scope: Scope, index: int, more: int = 0) -> tuple[list[str], int] | None:
    """Return the sequence's elements and the position in the input ``index``, or None if they are not known yet.

    The default position is the last one. ``more`` is the number of positions after the elements. Raises NodeError for a
    position outside the sequence.
    """
    elements = scope.sequences.get(node.input[0])
    if elements is None or (_has(node, index) and not scope.is_constant(node.input[index])):
        return None
    count = len(elements) + more
    given = scope.constant(node.input[index]) if _has(node, index) else None
    place = count - 1 if given is None else int(given.reshape(()))
    # Negative positions count from the end of the present elements: -1 inserts before the last one.
    least = -len(elements)
    if not least <= place < count:
        raise refuse(node, f"its position {place} is outside a sequence of {len(elements)}", "correct its position")
    return elements, place if place >= 0 else place + len(elements)


def _has(node: NodeProto, index: int) -> bool:
    return index < len(node.input) and bool(node.input[index])
