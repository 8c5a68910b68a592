"""One result of `tvmbuild doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's output: the subject, its state, and the remedy.

    The state `wrong` breaks builds. The state `missing` only makes some builds impossible.
    """

    state: Literal["ok", "missing", "wrong"]
    what: str
    detail: str
    remedy: str = ""
