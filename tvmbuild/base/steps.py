"""The Step: all that a stage may see. Like the specs it is frozen, hashable, picklable and made of plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeGuard, TypeVar

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.field_marks import NOT_FINGERPRINTED, OMIT_WHEN_DEFAULT
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Postprocess
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.quantize_specs import Quantize
from tvmbuild.base.size_specs import Sizes
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import (
    Accuracy,
    BenchmarkOptions,
    CacheSpec,
    InputSpec,
    Keep,
    SimplifyOptions,
    Tolerance,
    TuneOptions,
)


@dataclass(frozen=True)
class SimplifyStep:
    """The options of the step `simplify:MODEL`."""

    model: str
    source: Source
    inputs: tuple[InputSpec, ...]
    simplify: SimplifyOptions
    preprocess: Preprocess | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """The stage checks whether preprocess, frames and postprocess fit the model, so that no search runs in vain."""
    frames: tuple[Frame, ...] = field(default=(), metadata=NOT_FINGERPRINTED)
    postprocess: tuple[Postprocess, ...] = field(default=(), metadata=NOT_FINGERPRINTED)
    sizes: Sizes | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)


@dataclass(frozen=True)
class QuantizeStep:
    """The options of the step `quantize:MODEL`."""

    model: str
    quantize: Quantize
    preprocess: Preprocess | None
    """The conversion of pictures into the input, or None if the samples are arrays."""
    accuracy: Accuracy | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The real inputs with which those of the calibration are compared, or None if the model names none. For a search
    for operators in floats also the thresholds that it must keep.
    """
    sizes: Sizes | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The sizes of a model with a range: all have the scales of the largest one. None without a range."""


@dataclass(frozen=True)
class KeepStep:
    """The options of the step `keep:MODEL@TARGET`."""

    model: str
    precision: Precision
    keep: Keep
    preprocess: Preprocess | None = None
    """The conversion of pictures into the input, or None if no pictures judge a search."""
    accuracy: Accuracy | None = None
    """The accuracy that a search must keep, or None if there is no search."""


@dataclass(frozen=True)
class TuneStep:
    """The options of the step `tune:MODEL@TARGET`.

    The target's link, glibc and benchmark options are absent, because they change no record.
    """

    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    measured_on: str | None
    device: DeviceSpec
    tune: TuneOptions
    precision: Precision = field(default="fp32", metadata=OMIT_WHEN_DEFAULT)
    threads: int = field(default=1, metadata=NOT_FINGERPRINTED)
    """The number of threads that run a timed candidate.

    It is not in the fingerprint, which has the environment's TVM_NUM_THREADS instead.
    """
    rules: int = field(default=1, metadata=OMIT_WHEN_DEFAULT)
    """The version of the target kind's schedule rules. A search begins with the schedules that they give."""
    timed_on: str | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """The device class on which candidates are timed, or None if the plan does not know it."""
    needs_records: bool = field(default=True, metadata=NOT_FINGERPRINTED)
    """True if `strict=1` requires a record of each Task. The target's kind determines it."""
    preprocess: Preprocess | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """Preprocess, frames, postprocess and labels change no record: before a search, the stage checks that they fit."""
    frames: tuple[Frame, ...] = field(default=(), metadata=NOT_FINGERPRINTED)
    postprocess: tuple[Postprocess, ...] = field(default=(), metadata=NOT_FINGERPRINTED)
    labels: str | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """The file with the names of the classes, relative to the project. A worker of a cluster may lack it."""


@dataclass(frozen=True)
class CompileStep:
    """The options of the step `compile:MODEL@TARGET`."""

    model: str
    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    link: str
    glibc: str | None
    preprocess: Preprocess | None
    precision: Precision = field(default="fp32", metadata=OMIT_WHEN_DEFAULT)
    frames: tuple[Frame, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    postprocess: tuple[Postprocess, ...] = field(default=(), metadata=OMIT_WHEN_DEFAULT)
    sizes: Sizes | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    memory: int | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The most bytes that the package may take."""


@dataclass(frozen=True)
class ValidateStep:
    """The options of the step `validate:MODEL@TARGET`."""

    target: str
    kind: str
    attributes: Attributes
    host: Attributes
    tolerance: Tolerance
    precision: Precision = field(default="fp32", metadata=OMIT_WHEN_DEFAULT)
    stand_in: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """This machine's device that runs the package in place of the target's, or None if the CPU computes the model."""
    accuracy: Accuracy | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    preprocess: Preprocess | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The conversion of a picture into the input, or None if no pictures judge the accuracy."""


@dataclass(frozen=True)
class BenchmarkStep:
    """The options of the step `benchmark:MODEL@TARGET`."""

    target: str
    kind: str
    device: DeviceSpec
    threads: int
    tolerance: Tolerance
    benchmark: BenchmarkOptions
    accuracy: Accuracy | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    measured_on: str | None = field(default=None, metadata=NOT_FINGERPRINTED)
    """The device class that the target states. In a cluster, a worker with this CPU times the package."""


StepOptions = SimplifyStep | QuantizeStep | KeepStep | TuneStep | CompileStep | ValidateStep | BenchmarkStep
O_co = TypeVar("O_co", bound=StepOptions, covariant=True)
Other = TypeVar("Other", bound=StepOptions)
TuneMode = Literal["missing", "never", "full"]


@dataclass(frozen=True)
class Settings:
    """The options of one invocation, which are in no fingerprint."""

    tune: TuneMode = "missing"
    strict: bool = False
    cache: CacheSpec | None = None
    """The cache through which clones share outputs, or None if outputs are not shared."""


@dataclass(frozen=True)
class Step(Generic[O_co]):
    """One stage for one subject, with everything that the stage may see."""

    stage: str
    subject: str
    """The name of a model, or of a cell: ``model@target``."""
    options: O_co
    inputs: FrozenMap[str, Path] = FrozenMap()
    """The absolute path of every input file, by the role that `stages.table` gives it."""
    outputs: FrozenMap[str, Path] = FrozenMap()
    tools: FrozenMap[str, str] = FrozenMap()
    """The version of each tool that can change an output. The versions are in the fingerprint."""
    version: int = 1
    """The stage's version. It is raised when the same inputs begin to give another output."""
    environment: FrozenMap[str, str] = FrozenMap()
    """The environment variables that are set for the stage's process: TVM_NUM_THREADS …"""
    root: Path = field(default_factory=Path)
    """The project's root, to which paths in records and messages are relative. It is not in the fingerprint."""
    settings: Settings = Settings()
    unavailable: str | None = None
    """The reason why the step cannot run here, with the remedy, or None if it can run."""

    @property
    def id(self) -> str:
        """The step's name, ``stage:subject``, which is also the name of its doit task."""
        return f"{self.stage}:{self.subject}"

    @property
    def model(self) -> str:
        """The name of the step's model."""
        return self.subject.split("@")[0]

    @property
    def refuses_uncovered(self) -> bool:
        """Return whether a Task without a record is an error: with `strict=1`, if the target's kind needs records."""
        return self.settings.strict and has_options(self, TuneStep) and self.options.needs_records

    def input(self, role: str) -> Path:
        """Return the path of the input with that role. Raises KeyError if the step has none."""
        return self.inputs[role]

    def output(self, role: str) -> Path:
        """Return the path of the output with that role. Raises KeyError if the step has none."""
        return self.outputs[role]


AnyStep = Step[StepOptions]


SAMPLE = "sample "
"""The beginning of the roles of real inputs: `sample 0`, `sample 1` …"""
ORIGINAL = "named original"
"""The role of the float model that `accuracy:` names."""
METRIC, TRUTHS = "metric", "truths"
"""The roles of the Python file with the user's metric, and of the file with its truths."""
CALIBRATION = "calibration "
"""The beginning of the roles of real inputs that calibrate a quantisation."""


def list_sample_files(step: Step[Any], kind: str = SAMPLE) -> list[Path]:
    """Return the files of real inputs whose role begins with ``kind``, in the order in which the model names them."""
    return [path for role, path in step.inputs.items() if role.startswith(kind)]


def list_sizes(step: Step[Any], role: str) -> tuple[str, ...]:
    """Return the names of the sizes that have their own files with this role, the largest last.

    There are none if the model has one shape. The files with the plain role are those of the largest size, except
    `tasks` and `schedule`, which have the Tasks of all sizes.
    """
    roles = (*step.inputs, *step.outputs)
    return tuple(dict.fromkeys(each.removeprefix(f"{role} ") for each in roles if each.startswith(f"{role} ")))


def find_model(step: Step[Any], size: str) -> Path:
    """Return the ONNX file of a size."""
    return step.inputs.get(f"model {size}") or step.input("model")


def find_original(step: Step[Any]) -> Path:
    """Return the ONNX file of the model with which a package's accuracy is compared.

    It is the file that `accuracy:` names, else the file before quantisation, or the file from which the package is
    built if the model is not quantised here.
    """
    return step.inputs.get(ORIGINAL) or step.inputs.get("original") or step.input("model")


def find_file_beside(step: Step[Any]) -> Path | None:
    """Return the ONNX file from which the package is built, or None if it is the original itself."""
    model = step.input("model")
    return None if find_original(step) == model else model


def has_options(step: Step[Any], kind: type[Other]) -> TypeGuard[Step[Other]]:
    """Return whether the step's options are of that class, so that the step belongs to the class's stage."""
    return isinstance(step.options, kind)
