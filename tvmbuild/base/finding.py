"""What `tvmbuild doctor` has to say of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line: `wrong` breaks builds, `missing` only narrows what can be built."""

    state: Literal["ok", "missing", "wrong"]
    what: str
    detail: str
    remedy: str = ""
