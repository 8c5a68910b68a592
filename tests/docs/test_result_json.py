"""The page about result.json has every key that a benchmark writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark_results import make_framed, make_result
from site_pages import render_page

from tvmbuild.benchmarking.results import EmulatedResult

ELSEWHERE = ("operators",)
"""The keys whose own keys the page does not list."""


def list_keys(value: Any) -> Iterator[str]:
    """Yield the keys of maps, and of the maps in lists."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            for key, inner in each.items():
                yield key
                if key not in ELSEWHERE:
                    yield from list_keys(inner)


def test_every_key_is_described(project_root: Path) -> None:
    page = render_page(project_root, "reference/result-json.md")
    frames = replace(make_framed(), absent=(("opencv", "it is missing"),))
    result = replace(make_result(), frames=frames)
    emulated = EmulatedResult(result.cell, result.product, 2, result.machine, 0.0, 0.0)
    keys = {*list_keys(result.to_json()), *list_keys(emulated.to_json())}
    assert {"frames", "parts_ms", "missing", "emulated"} <= keys
    assert sorted(key for key in keys if f"`{key}`" not in page) == []
