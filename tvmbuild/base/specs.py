"""The contents of `models.yaml` and `targets.yaml`, as values.

Every class is frozen, hashable, picklable and made of plain data, so that a fingerprint is a digest of its fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice
from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Postprocess
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.quantize_specs import Quantize
from tvmbuild.base.size_specs import Size, Sizes
from tvmbuild.base.source_specs import Source

# --------------------------------------------------------------------------- models


@dataclass(frozen=True)
class InputSpec:
    """One input of a model as the user fixes it. ``shape`` replaces dynamic dimensions."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    """NumPy's name of the element type, or None for the type in the ONNX file."""
    low: float | None = None
    high: float | None = None
    """The range [low, high) of the seeded reference inputs. None means [-1, 1) for floats, [0, 2) for integers."""
    value: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """JSON text: one number for all elements, or nested lists with a number for each.

    The input becomes a constant of the model. With None it stays an input.
    """


def fix_inputs_at(inputs: Sequence[InputSpec], sizes: Sizes, size: Size) -> tuple[InputSpec, ...]:
    """Return the inputs with the shapes of a size."""
    return tuple(replace(each, shape=sizes.shape(each.name, size) or each.shape) for each in inputs)


@dataclass(frozen=True)
class Tolerance:
    """The limit of a package's errors: |got - want| <= atol + rtol * |want| for every element.

    ``of_largest`` times the output's largest magnitude is added to atol.
    """

    rtol: float = 1e-3
    atol: float = 1e-3
    of_largest: float = field(default=0.0, metadata=OMIT_WHEN_DEFAULT)

    def of_integers(self) -> Tolerance:
        """Return the tolerance for integers and booleans: no error, unless this tolerance exceeds the default."""
        default = Tolerance()
        is_wide = self.of_largest > default.of_largest or self.rtol > default.rtol or self.atol > default.atol
        return self if is_wide else Tolerance(rtol=0.0, atol=0.0)

    def at_least(self, precision: str) -> Tolerance:
        """Return the larger of this tolerance and the default tolerance of the precision, field by field."""
        default = REDUCED_TOLERANCE.get(precision, self)
        names = tuple(field.name for field in fields(Tolerance))
        return Tolerance(**{name: max(getattr(default, name), getattr(self, name)) for name in names})


REDUCED_TOLERANCE: dict[str, Tolerance] = {
    "tf32": Tolerance(rtol=1e-2, atol=1e-3, of_largest=0.02),
    "fp16": Tolerance(rtol=1e-2, atol=1e-3, of_largest=0.02),
    "bf16": Tolerance(rtol=5e-2, atol=1e-3, of_largest=0.1),
    "int8": Tolerance(of_largest=5 / 255),
}
"""The default tolerance of each reduced precision.

Rounding errors grow with the largest terms of a sum, not with its result, hence the share of the largest output. 5/255
is five steps of 8 bits: in a quantised network a tie that is rounded the other way becomes a whole step later on.
"""


@dataclass(frozen=True)
class Metric:
    """A user's function that computes one number from the outputs of all samples. A higher number is better."""

    script: str
    """The path of the Python file, relative to the project's root. ``truths`` is relative to it, too."""
    function: str
    truths: str | None = None
    """The file that the function gets as its third argument, or None if it has two."""
    drop: float | None = None
    """The largest accepted difference by which the metric is below that of the original model."""
    at_least: float | None = None
    """The smallest accepted value."""

    @property
    def shown(self) -> str:
        """The function as models.yaml names it."""
        return f"{self.script}:{self.function}"


@dataclass(frozen=True)
class Accuracy:
    """Real inputs for a comparison with the original model, and the required accuracy.

    ``paths`` name pictures, or one .npz, relative to the project's root. A threshold of None is not checked.
    `benchmarking.agreement.Agreement` defines the figures.
    """

    kind: Literal["images", "inputs"]
    paths: tuple[str, ...]
    top1: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The smallest accepted share of samples for which both models have the same largest element."""
    rms: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The largest accepted ratio of the errors' root mean square to the root mean square of the original's output."""
    of_largest: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The largest accepted error, as a share of the largest magnitude of the original's output."""
    metric: Metric | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    original: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The ONNX file of the float model, relative to the project's root, to compare with if the model came quantised.

    None stands for the model's own file before it is quantised here.
    """

    @property
    def has_threshold(self) -> bool:
        """Return whether anything is required."""
        limits = [self.top1, self.rms, self.of_largest]
        limits += [self.metric.drop, self.metric.at_least] if self.metric else []
        return any(each is not None for each in limits)


@dataclass(frozen=True)
class Keep:
    """The operators that stay in float32 where a target has a precision of shorter floats."""

    words: tuple[str, ...] = ()
    """Globs of node names, and operator types."""
    search: bool = False
    """True if further operators are searched for, until the model's accuracy is kept."""


@dataclass(frozen=True)
class SimplifyOptions:
    """The options of the simplify stage.

    ``rtol`` and ``atol`` limit the difference between the outputs of the simplified and the original model.
    """

    enabled: bool = True
    skip: tuple[str, ...] = ()
    """The optimiser passes of onnxsim that are left out."""
    seed: int = 0
    rtol: float = 1e-3
    atol: float = 1e-4


@dataclass(frozen=True)
class ModelSpec:
    """A network that a project builds: name, source, inputs, preprocessing."""

    name: str
    source: Source
    inputs: tuple[InputSpec, ...] = ()
    """The inputs. Shapes that vary are those of the largest size."""
    sizes: Sizes | None = None
    """The sizes of a model whose shapes vary."""
    tolerance: Tolerance = Tolerance()
    preprocess: Preprocess | None = None
    frames: tuple[Frame, ...] = ()
    """The frames of a camera that its packages take."""
    postprocess: tuple[Postprocess, ...] = ()
    """The results that its packages make of their outputs."""
    labels: str | None = None
    """The path, relative to the project's root, of a text file with one label per line."""
    simplify: SimplifyOptions = SimplifyOptions()
    enabled: bool = True
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    """``include`` and ``exclude`` are globs of target names."""
    reduced_tolerance: FrozenMap[Precision, FrozenMap[str, float]] = FrozenMap()
    """The fields of a Tolerance that the model sets for each reduced precision."""
    accuracy: Accuracy | None = None
    quantize: Quantize | None = None
    keep: Keep | None = None

    def includes(self, target: str) -> bool:
        """Return whether the model is built for the target of that name."""
        return any(fnmatchcase(target, glob) for glob in self.include) and not any(
            fnmatchcase(target, glob) for glob in self.exclude
        )

    def tolerance_in(self, precision: Precision) -> Tolerance:
        """Return the model's tolerance for targets of that precision.

        A field that the model does not set for the precision is at least as large as the model's field for fp32.
        """
        return replace(self.tolerance.at_least(precision), **self.reduced_tolerance.get(precision, FrozenMap()))


# --------------------------------------------------------------------------- targets


@dataclass(frozen=True)
class TuneOptions:
    """The options of the search for Tasks that do not have enough records."""

    trials: int | None = None
    """The largest number of measurements for a cell, or None if ``trials_per_task`` is the only limit.

    Each Task gets an equal share. Shares that a Task does not use go to the Tasks that gain most.
    """
    trials_per_task: int = 64
    number: int = 1
    repeat: int = 3
    min_repeat_ms: int = 10
    seed: int = 0
    patience: int | None = 48
    """The number of candidates without an improvement that ends the search of a Task, or None for no limit."""
    cost_model: Literal["xgb", "random"] = "xgb"
    ops: tuple[str, ...] = ("*",)
    """Globs of the names of Tasks to search. Other Tasks are compiled from the records that they have."""
    algorithms: tuple[str, ...] = field(default=("direct", "winograd2", "winograd4"), metadata=OMIT_WHEN_DEFAULT)
    """The permitted algorithms of convolutions. If there are several, measurements choose the fastest."""
    minutes: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The time in minutes after which a run proposes only the first candidates of each Task, or None for no limit."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """The measurement of latency: the median over ``repeat`` samples of ``number`` calls each."""

    number: int = 1
    repeat: int = 50
    threads: int | None = None
    """The number of threads, or None for the target's num-cores."""
    baselines: tuple[str, ...] = ("onnxruntime",)
    """The programs that are timed in turns with the package: onnxruntime, openvino, tvm-untuned."""


@dataclass(frozen=True)
class TargetSpec:
    """Hardware to build for.

    ``attributes`` and ``host`` are resolved: they have the values of the target's lock in place of `native` and
    `from_device`.
    """

    name: str
    kind: str
    """The key of a row of `targets/table.py`: llvm, cuda, vulkan."""
    attributes: Attributes = FrozenMap()
    host: Attributes = FrozenMap()
    """The attributes of the llvm target that runs the host code of a GPU kind. They are empty for other kinds."""
    precision: Precision = "fp32"
    link: str = "auto"
    """``auto`` for the bundled ziglang, or the command of a compiler that links."""
    glibc: str | None = None
    measured_on: str | None = None
    """The device class whose records decide: LLVM's name of the CPU, or a board's name.

    A Task without records of this class uses the records of another class.
    """
    device: DeviceSpec = LocalDevice()
    tune: TuneOptions = TuneOptions()
    benchmark: BenchmarkOptions = BenchmarkOptions()
    unresolved: str | None = None
    """The reason, with the remedy, why the target cannot be used yet (`native` without a lock), or None if it can."""
    enabled: bool = True
    memory: int | None = None
    """The most bytes that a package may take, or None if there is no limit."""

    @property
    def cpu(self) -> Attributes:
        """The attributes of the llvm target: ``host`` if kernels run on a GPU, else ``attributes``."""
        return self.host or self.attributes

    @property
    def num_cores(self) -> int:
        """The number of threads that tuning and benchmarking use. It is 1 if the target states none."""
        value = self.cpu.get("num-cores", 1)
        return value if isinstance(value, int) else 1


@dataclass(frozen=True)
class CacheSpec:
    """The folder through which clones share the outputs of steps, and its size limit."""

    path: Path
    """An absolute path."""
    size: int = 5_000_000_000
    """The size limit, in bytes."""


@dataclass(frozen=True)
class Project:
    """The checked contents of both YAML files, and the project's folder."""

    root: Path
    models: tuple[ModelSpec, ...]
    targets: tuple[TargetSpec, ...]
    cache: CacheSpec | None = None
