"""Passwords and tokens in URLs, hidden in whatever is shown or kept."""

from __future__ import annotations

import re

_USER_INFO = re.compile(r'(?<=://)[^\s/?#"<>]+@')


def mask_credentials(text: str) -> str:
    """Return the text with `***` for what stands between `://` and `@` in each URL."""
    return _USER_INFO.sub("***@", text)
