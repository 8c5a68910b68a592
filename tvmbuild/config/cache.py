"""The conversion of `cache:` in targets.yaml to a CacheSpec."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tvmbuild.base.specs import CacheSpec
from tvmbuild.config.document import Document

SIZE = re.compile(r"[0-9]+(\.[0-9]+)? ?[MGT]B")
"""The form of a size, such as `5 GB`. The schema has the same pattern."""
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


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


def read_size(text: str) -> int:
    """Return the number of bytes of a size that matches SIZE."""
    return int(float(text[:-2]) * _UNITS[text[-2:]])
