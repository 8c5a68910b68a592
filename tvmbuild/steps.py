"""The Step: all that a stage may see. Frozen, hashable, picklable and made of plain data, as the specs are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tvmbuild.specs import (
    LATER,
    Accuracy,
    Attributes,
    BenchmarkOptions,
    CacheSpec,
    DeviceSpec,
    InputSpec,
    Precision,
    Preprocess,
    SimplifyOptions,
    Source,
    Tolerance,
    TuneOptions,
)

Needs = tuple[tuple[str, int], ...]
"""What a step takes of the machine that runs it: (name, amount)."""


@dataclass(frozen=True)
class SimplifyStep:
    """Options of simplify:M."""

    model: str
    source: Source
    inputs: tuple[InputSpec, ...]
    simplify: SimplifyOptions


@dataclass(frozen=True)
class TuneStep:
    """Options of tune:M@T. The target's link, glibc and benchmark options are not here: they change no record."""

    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    measured_on: str | None
    device: DeviceSpec
    tune: TuneOptions
    precision: Precision = field(default="fp32", metadata=LATER)

    @property
    def needs_records(self) -> bool:
        """Say whether a Task without a record is badly off: those of GPUs are scheduled by rule, or by DLight."""
        return self.kind == "llvm"


@dataclass(frozen=True)
class CompileStep:
    """Options of compile:M@T."""

    model: str
    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    link: str
    glibc: str | None
    preprocess: Preprocess | None
    precision: Precision = field(default="fp32", metadata=LATER)


@dataclass(frozen=True)
class ValidateStep:
    """Options of validate:M@T."""

    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    tolerance: Tolerance
    precision: Precision = field(default="fp32", metadata=LATER)


@dataclass(frozen=True)
class BenchmarkStep:
    """Options of benchmark:M@T."""

    target: str
    kind: str
    device: DeviceSpec
    threads: int
    tolerance: Tolerance
    benchmark: BenchmarkOptions
    accuracy: Accuracy | None = field(default=None, metadata=LATER)


StepOptions = SimplifyStep | TuneStep | CompileStep | ValidateStep | BenchmarkStep
TuneMode = Literal["missing", "never", "full"]


@dataclass(frozen=True)
class Settings:
    """What one invocation asks for; in no fingerprint."""

    tune: TuneMode = "missing"
    strict: bool = False
    cache: CacheSpec | None = None
    """None: outputs are shared with nobody."""


@dataclass(frozen=True)
class Step:
    """One stage for one subject: all that the stage may see."""

    stage: str
    subject: str
    """Model name, or cell name ``model@target``."""
    options: StepOptions
    inputs: tuple[tuple[str, Path], ...] = ()
    """(role, absolute path) of every file that is read; roles are stage_table's."""
    outputs: tuple[tuple[str, Path], ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    """(tool, version) of what can change an output; in the fingerprint."""
    version: int = 1
    """The stage's version: bumped when the same inputs come to mean another output."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the stage's process: TVM_NUM_THREADS …"""
    root: Path = field(default_factory=Path)
    """The project's root: paths in records and messages are relative to it. Not in the fingerprint."""
    settings: Settings = Settings()
    unavailable: str | None = None
    """Why the step cannot run here, with the remedy; None: it can."""
    needs: Needs = ()
    """Where other machines run steps, what this one's must have; empty: it always runs here. Not in the fingerprint."""

    @property
    def id(self) -> str:
        """``stage:subject``, doit's task name."""
        return f"{self.stage}:{self.subject}"

    @property
    def model(self) -> str:
        """The name of the model that the step is about."""
        return self.subject.split("@")[0]

    @property
    def refuses_uncovered(self) -> bool:
        """Say whether a Task without a record is an error: with `strict=1`, where it could be tuned."""
        return self.settings.strict and isinstance(self.options, TuneStep) and self.options.needs_records

    def input(self, role: str) -> Path:
        """Return the input file of that role; KeyError when the stage declares none."""
        return dict(self.inputs)[role]

    def output(self, role: str) -> Path:
        """Return the output file of that role; KeyError when the stage declares none."""
        return dict(self.outputs)[role]
