"""The merge of `defaults` with the keys of a model or a target itself."""

from __future__ import annotations

from typing import Any

WHOLE = frozenset({"device"})
"""The keys whose maps are alternatives. One map replaces the other, because a merge by key would mix them."""


def merge_maps(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return ``defaults`` overridden by ``own``. Maps are merged at every depth; lists and scalars are replaced."""
    merged = dict(defaults)
    for key, value in own.items():
        below = defaults.get(key)
        both = isinstance(value, dict) and isinstance(below, dict) and key not in WHOLE
        merged[key] = merge_maps(below or {}, value) if both else value
    return merged
