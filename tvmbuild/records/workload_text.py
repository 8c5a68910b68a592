"""Descriptions of a workload's arguments for people: types and shapes, read from its JSON without tvm."""

from __future__ import annotations

import json
from typing import Any


def describe_arguments(workload: str) -> tuple[str, ...]:
    """Return the type and shape of each argument as text, or an empty tuple if the JSON has another form.

    An example is ``float32[1, 112, 112, 32]``.
    """
    try:
        nodes: list[dict[str, Any]] = json.loads(workload)["nodes"]
        function = next(node["data"] for node in nodes if node["type"] == "tirx.PrimFunc")
        variables = nodes[function["params"]]["data"]
        return tuple(_describe(nodes, nodes[nodes[index]["data"]["ty"]]["data"]) for index in variables)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, StopIteration, RecursionError):
        return ()


def _describe(nodes: list[dict[str, Any]], buffer: dict[str, Any]) -> str:
    extents = [nodes[index]["data"] for index in nodes[buffer["shape"]]["data"]]
    dtype = nodes[buffer["dtype"]]["data"]
    name = dtype["dtype"] if isinstance(dtype, dict) else dtype
    # An extent holds the index of the node with its value; an extent that is not a number means another form.
    values = [nodes[extent["value"]]["data"] if "value" in extent else "?" for extent in extents]
    return f"{name}[{', '.join(map(str, values))}]"
