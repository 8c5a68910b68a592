"""The Step: all that a stage may see. Like the specs it is frozen, hashable, picklable and made of plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeGuard, TypeVar

from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.field_marks import NOT_FINGERPRINTED, OMIT_WHEN_DEFAULT
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.quantize_specs import Quantize
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import (
    Accuracy,
    Attributes,
    BenchmarkOptions,
    CacheSpec,
    InputSpec,
    Precision,
    Preprocess,
    SimplifyOptions,
    Tolerance,
    TuneOptions,
)


@dataclass(frozen=True)
class SimplifyStep:
    """Options of simplify:M."""

    model: str
    source: Source
    inputs: tuple[InputSpec, ...]
    simplify: SimplifyOptions


@dataclass(frozen=True)
class QuantizeStep:
    """Options of quantize:M."""

    model: str
    quantize: Quantize
    preprocess: Preprocess | None
    """The conversion of pictures. None: the samples are arrays."""


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
    precision: Precision = field(default="fp32", metadata=OMIT_WHEN_DEFAULT)
    threads: int = field(default=1, metadata=NOT_FINGERPRINTED)
    """The number of threads of a timed candidate. TVM_NUM_THREADS in the environment is in the fingerprint instead."""
    rules: int = field(default=1, metadata=OMIT_WHEN_DEFAULT)
    """The version of the kind's rules for Tasks without a record. A search begins with the schedules of these rules."""
    timed_on: str | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """The device class on which candidates are timed, if the plan knows it."""
    needs_records: bool = field(default=True, metadata=NOT_FINGERPRINTED)
    """Whether a Task without a record is badly off. The kind determines it."""


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
    precision: Precision = field(default="fp32", metadata=OMIT_WHEN_DEFAULT)


@dataclass(frozen=True)
class ValidateStep:
    """Options of validate:M@T."""

    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    tolerance: Tolerance
    precision: Precision = field(default="fp32", metadata=OMIT_WHEN_DEFAULT)
    stand_in: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """This machine's device that runs the package in place of the target's. None: its CPU computes the model."""
    accuracy: Accuracy | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    preprocess: Preprocess | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The conversion of a picture into the input, if pictures judge the accuracy."""


@dataclass(frozen=True)
class BenchmarkStep:
    """Options of benchmark:M@T."""

    target: str
    kind: str
    device: DeviceSpec
    threads: int
    tolerance: Tolerance
    benchmark: BenchmarkOptions
    accuracy: Accuracy | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    measured_on: str | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """The device class that the target states. If steps run on other machines, the one with that CPU times."""


StepOptions = SimplifyStep | QuantizeStep | TuneStep | CompileStep | ValidateStep | BenchmarkStep
O_co = TypeVar("O_co", bound=StepOptions, covariant=True)
Other = TypeVar("Other", bound=StepOptions)
TuneMode = Literal["missing", "never", "full"]


@dataclass(frozen=True)
class Settings:
    """The options of one invocation, which are in no fingerprint."""

    tune: TuneMode = "missing"
    strict: bool = False
    cache: CacheSpec | None = None
    """None: outputs are not shared."""


@dataclass(frozen=True)
class Step(Generic[O_co]):
    """One stage for one subject: all that the stage may see."""

    stage: str
    subject: str
    """Model name, or cell name ``model@target``."""
    options: O_co
    inputs: FrozenMap[str, Path] = FrozenMap()
    """Role → absolute path of every input file; the roles are those of stages.table."""
    outputs: FrozenMap[str, Path] = FrozenMap()
    tools: FrozenMap[str, str] = FrozenMap()
    """Tool → version, for each tool that can change an output; in the fingerprint."""
    version: int = 1
    """The stage's version, raised when the same inputs come to mean another output."""
    environment: FrozenMap[str, str] = FrozenMap()
    """Variables of the stage's process: TVM_NUM_THREADS …"""
    root: Path = field(default_factory=Path)
    """The project's root: paths in records and messages are relative to it. Not in the fingerprint."""
    settings: Settings = Settings()
    unavailable: str | None = None
    """The reason why the step cannot run here, with the remedy. None: it can."""

    @property
    def id(self) -> str:
        """``stage:subject``, doit's task name."""
        return f"{self.stage}:{self.subject}"

    @property
    def model(self) -> str:
        """The name of the step's model."""
        return self.subject.split("@")[0]

    @property
    def refuses_uncovered(self) -> bool:
        """Return whether a Task without a record is an error: with `strict=1`, if the Task could be tuned."""
        return self.settings.strict and has_options(self, TuneStep) and self.options.needs_records

    def input(self, role: str) -> Path:
        """Return the input file of that role. Raises KeyError if the stage declares none."""
        return self.inputs[role]

    def output(self, role: str) -> Path:
        """Return the output file of that role. Raises KeyError if the stage declares none."""
        return self.outputs[role]


AnyStep = Step[StepOptions]


SAMPLE = "sample "
"""The beginning of the roles of real inputs: `sample 0`, `sample 1` …"""
CALIBRATION = "calibration "
"""The beginning of the roles of real inputs that calibrate a quantisation."""


def list_sample_files(step: Step[Any], kind: str = SAMPLE) -> list[Path]:
    """Return the files of real inputs, in the order in which the model names them."""
    return [path for role, path in step.inputs.items() if role.startswith(kind)]


def find_original(step: Step[Any]) -> Path:
    """Return the model that judges a package's accuracy: the one it is built from, or the one before quantisation."""
    return step.inputs.get("original") or step.input("model")


def has_options(step: Step[Any], kind: type[Other]) -> TypeGuard[Step[Other]]:
    """Return whether the step belongs to the stage with options of that class."""
    return isinstance(step.options, kind)
