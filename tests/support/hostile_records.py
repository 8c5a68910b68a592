"""Wrong records made of right ones: edits of a trace's JSON, and of a file's bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

SCALARS: list[Any] = [
    None, True, 0, 1, -1, 2, 64, 10**6, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 1.5, 1e300, "", "b0", "l3", "v10",
    "l99", "root", "main", '"SSRSRS"', [], [0], [0, 0, 0, 0], [1, -1], [2**40, 2], [[1]], {}, {"a": 1}, "{}",
    '{"root":0}',
]  # fmt: skip


def edit_trace(text: str, rng: random.Random) -> dict[str, Any]:
    """Return the trace with one to four edits: values replaced or moved, instructions dropped, repeated or swapped."""
    trace: dict[str, Any] = json.loads(text)
    if rng.random() < 0.1:  # TVM divides by them
        trace["decisions"] = [[at, [0] * len(old) if isinstance(old, list) else old] for at, old in trace["decisions"]]
        return trace
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        _edit(trace, rng)
    return trace


def edit_fields(text: str, rng: random.Random) -> dict[str, Any]:
    """Return the record file with one or two values outside of its traces replaced."""
    data: dict[str, Any] = json.loads(text)
    for _ in range(rng.choice([1, 1, 2])):
        places = [place for place in _places(data) if place and "trace" not in place]
        _put(data, rng.choice(places), rng.choice([*SCALARS, 10**400, "[/x]", "\x1b[2J", ["a", 1], {"a": [1, "b"]}]))
    return data


def edit_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return the file with a piece cut out, doubled, or overwritten."""
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice([1, 1, 2, 30, 3000]))
    middle = rng.choice([b"", data[start:end] * 2, bytes(rng.randrange(256) for _ in range(end - start)), b"9e9", b"["])
    return data[:start] + middle + data[end:]


def _edit(trace: dict[str, Any], rng: random.Random) -> None:
    instructions: list[Any] = trace["instructions"]
    kind = rng.randrange(6)
    places = [place for place in _places(trace) if len(place) >= 2]
    if kind <= 1 and places:
        _put(trace, rng.choice(places), rng.choice(SCALARS))
    elif kind == 2 and places:
        value = json.dumps(_get(trace, rng.choice(places)))
        _put(trace, rng.choice(places), json.loads(value))
    elif kind == 3 and isinstance(instructions, list) and instructions:
        instructions.pop(rng.randrange(len(instructions)))
    elif kind == 4 and isinstance(trace["decisions"], list) and trace["decisions"]:
        _put(
            trace,
            ("decisions", rng.randrange(len(trace["decisions"])), 1),
            [rng.choice([0, 1, -1, 2, 1000, 2**40]) for _ in range(rng.randrange(6))],
        )
    elif isinstance(instructions, list) and instructions:
        one, two = rng.randrange(len(instructions)), rng.randrange(len(instructions))
        instructions[one], instructions[two] = instructions[two], instructions[one]


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    inside = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in inside:
        yield from _places(item, (*place, key))


def _get(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _put(value: Any, place: tuple[Any, ...], new: Any) -> None:
    _get(value, place[:-1])[place[-1]] = copy.deepcopy(new)  # else a later edit may put it into itself
