"""Nodes of a model that words of models.yaml select: by name, by a glob of names, or by the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.errors import TvmbuildError


def list_matches(proto: Any, word: str) -> list[str]:
    """Return the names of the nodes that a word matches: a glob of names, or the type of operators."""
    return [node.name for node in proto.graph.node if word in (node.op_type, node.name) or fnmatchcase(node.name, word)]


def find_nodes(proto: Any, words: Sequence[str], name: str, key: str) -> tuple[str, ...]:
    """Return the names of the nodes that a word matches: a glob of names, or the type of operators.

    Names and types are those of the simplified model ``name``. Raises TvmbuildError, which names the ``key`` of
    models.yaml, for a word that matches none.
    """
    nodes = proto.graph.node
    chosen: dict[str, None] = {}
    for word in words:
        found = list_matches(proto, word)
        if not found:
            types = Counter(node.op_type for node in nodes)
            near = find_nearest(word, {*types, *(node.name for node in nodes)})
            raise TvmbuildError(
                f"{name}: {key} in models.yaml names {word!r}, "
                "which is neither a node nor an operator of the simplified model",
                f"{suggest(near)}Its operators are {', '.join(sorted(types))}; nodes have the names of the ONNX file.",
            )
        chosen |= dict.fromkeys(found)
    return tuple(chosen)
