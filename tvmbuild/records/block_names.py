"""The names of a workload's blocks, by which a trace finds them. This module imports no tvm.

Equal Tasks may name their blocks differently: if a graph has both a Relu and a maximum with zero of one shape, TVM
keeps one function for both, and the rest of the graph decides which function it keeps.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvmbuild.base.files import canonical_json
from tvmbuild.records.task_file import Record, TaskFile

_BLOCK, _FIND = "s_tir.SBlock", "GetSBlock"


@functools.lru_cache(maxsize=1024)
def list_blocks(workload: str) -> tuple[str, ...]:
    """Return the block names in the order of the workload's JSON text, or an empty tuple if it has none.

    Equal workloads have the same order.
    """
    try:
        nodes: list[dict[str, Any]] = json.loads(workload)["nodes"]
        blocks = [node["data"]["name_hint"] for node in nodes if node["type"] == _BLOCK]
        return tuple(str(nodes[index]["data"]) for index in blocks)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ()


def rename_blocks(trace: dict[str, Any], recorded: Sequence[str], own: Sequence[str]) -> dict[str, Any]:
    """Return the trace with the blocks of its ``recorded`` workload renamed to their ``own`` names.

    Both are results of `list_blocks`. If their lengths differ, the trace is returned unchanged.
    """
    if tuple(recorded) == tuple(own) or len(recorded) != len(own):
        return trace
    names = dict(zip(recorded, own, strict=True))
    instructions = [_rename(instruction, names) for instruction in trace["instructions"]]
    return {**trace, "instructions": instructions}


def records_for(workload: str, file: TaskFile) -> tuple[Record, ...]:
    """Return the file's records with the block names of ``workload``, which is equal except for these names."""
    recorded, own = list_blocks(file.workload), list_blocks(workload)
    if recorded == own:
        return file.records
    traces = (canonical_json(rename_blocks(json.loads(each.trace), recorded, own)) for each in file.records)
    return tuple(replace(each, trace=trace) for each, trace in zip(file.records, traces, strict=True))


def _rename(instruction: list[Any], names: dict[str, str]) -> list[Any]:
    kind, inputs, attributes, outputs = instruction
    if kind != _FIND or not attributes or not isinstance(attributes[0], str):
        return instruction
    return [kind, inputs, [_find_name(attributes[0], names), *attributes[1:]], outputs]


def _find_name(name: str, names: dict[str, str]) -> str:
    """Return the own name of the block that was recorded as ``name``.

    A schedule names a new block after an old one, for example ``matmul_update``. The added part of the name is kept.
    """
    base = max((each for each in names if name == each or name.startswith(f"{each}_")), key=len, default=None)
    return name if base is None else names[base] + name.removeprefix(base)
