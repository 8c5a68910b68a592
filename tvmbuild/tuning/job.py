"""A tuning job: the model, the target and the options that all phases of tuning need. This module imports no tvm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.attributes import Precision
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import TuneMode
from tvmbuild.records.task_file import FIRST_RULES, ResolvedTarget


@dataclass(frozen=True)
class Job:
    """One model to be tuned for one target."""

    model: str
    """The model's name."""
    target: str
    """The target's name, which is also the name of its folder of records."""
    resolved: ResolvedTarget
    device: DeviceSpec
    options: TuneOptions
    layout: Layout
    """The paths of the project that holds the records."""
    measured_on: str | None = None
    """The device class whose records are elected. If it is None or has no record, the first class with records in
    alphabetical order is used.
    """
    precision: Precision = "fp32"
    keep: tuple[str, ...] = ()
    """The ONNX nodes that stay in float32 in a precision of 16 bits."""
    threads: int = 1
    """The number of threads with which a candidate is timed."""
    mode: TuneMode = "missing"
    rules: int = FIRST_RULES
    """The version of the rules that schedule a Task without a search."""
    deadline: float = math.inf
    """The time of the monotonic clock, in seconds, after which searches propose no more candidates."""

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
        """The resolved target as canonical JSON text, as in record files."""
        return canonical_json(self.resolved.to_json())

    @property
    def may_search(self) -> bool:
        """Return whether the mode allows measuring and the device can time candidates."""
        return self.mode != "never" and self.device.is_timed

    def journal(self, key: str) -> Path:
        """Return the path of the journal of an unfinished search. ``key`` is the key of its Task."""
        return self.layout.journal(self.target, key)

    def course(self, key: str) -> Path:
        """Return the path of the course, which remains of the journal when the search is over."""
        return self.layout.course(self.target, key)
