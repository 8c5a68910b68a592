"""Sizes in bytes as people write them: `500 kB`, `16MB`, `5 GB`."""

from __future__ import annotations

import re

SIZE = re.compile(r"[0-9]+(\.[0-9]+)? ?[kMGT]B")
"""The form of a size. The schemas have the same pattern."""
_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def read_size(text: str) -> int:
    """Return the number of bytes of a size that matches SIZE."""
    return int(float(text[:-2]) * _UNITS[text[-2:]])
