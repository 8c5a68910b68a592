"""What is to be tuned, for what, and how: all that the phases of tuning know. No tvm here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Precision, TuneOptions
from tvmbuild.base.steps import TuneMode
from tvmbuild.records.task_file import FIRST_RULES, ResolvedTarget


@dataclass(frozen=True)
class Job:
    """One model to be tuned for one target."""

    model: str
    """The model's name."""
    target: str
    """The target's name, which is that of its folder of records."""
    resolved: ResolvedTarget
    device: DeviceSpec
    options: TuneOptions
    layout: Layout
    """Of the project whose records are used and added to."""
    measured_on: str | None = None
    """The device class whose records are to win; None: the first that has any."""
    precision: Precision = "fp32"
    threads: int = 1
    """Of a candidate that is timed."""
    mode: TuneMode = "missing"
    rules: int = FIRST_RULES
    """The version of the rules that schedule without a search."""
    deadline: float = math.inf
    """By the monotonic clock: when searches propose nothing more."""

    @property
    def kind(self) -> str:
        """The target's kind."""
        return self.resolved.kind

    @property
    def records(self) -> Path:
        """The target's folder of records."""
        return self.layout.records(self.target)

    @property
    def target_text(self) -> str:
        """The resolved target as record files hold it."""
        return canonical_json(self.resolved.to_json())

    @property
    def may_search(self) -> bool:
        """Whether candidates may be measured, and can be."""
        return self.mode != "never" and self.device.is_timed

    def journal(self, key: str) -> Path:
        """Return the journal of the search of a Task."""
        return self.layout.journal(self.target, key)

    def course(self, key: str) -> Path:
        """Return what remains of that journal when the search is over."""
        return self.layout.course(self.target, key)
