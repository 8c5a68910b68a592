"""One result of `tvmbuild doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line: `wrong` breaks builds, `missing` only narrows the set of possible builds."""

    state: Literal["ok", "missing", "wrong"]
    what: str
    detail: str
    remedy: str = ""
