"""The conversion of `cache:` in targets.yaml to a CacheSpec."""

from __future__ import annotations

import os
from pathlib import Path

from tvmbuild.base.byte_sizes import read_size
from tvmbuild.base.specs import CacheSpec
from tvmbuild.config.document import Document


def make_cache(document: Document, root: Path) -> CacheSpec | None:
    """Return the cache that targets.yaml names, or None if it names none or cannot be read."""
    if not isinstance(document.data, dict):
        return None
    data = document.part((), "cache", None)
    if data is None:
        return None
    if isinstance(data, str):
        return CacheSpec(locate_cache(root, data))
    path = locate_cache(root, data["path"])
    return CacheSpec(path, read_size(data["size"])) if "size" in data else CacheSpec(path)


def locate_cache(root: Path, text: str) -> Path:
    """Return the absolute path of a cache. A relative path starts at the project's root."""
    return root / os.path.expanduser(text)  # noqa: PTH111 - pathlib's raises for an unknown user
