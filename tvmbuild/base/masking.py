"""Masking of passwords and tokens in URLs in all texts that are shown or kept."""

from __future__ import annotations

import re

_USER_INFO = re.compile(r'(?<=://)[^\s/?#"<>]+@')


def mask_credentials(text: str) -> str:
    """Return the text with `***` in place of the text between `://` and `@` in each URL."""
    return _USER_INFO.sub("***@", text)
