"""The contents of `models.yaml` and `targets.yaml`, as values.

Every class is frozen, hashable, picklable and made of plain data, so that a fingerprint is a digest of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice
from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.quantize_specs import Quantize
from tvmbuild.base.source_specs import Source

Scalar = str | int | float | bool
AttributeValue = Scalar | tuple[Scalar, ...]
Attributes = FrozenMap[str, AttributeValue]
"""Target attributes in TVM's spelling, sorted: mcpu, mattr, mtriple, num-cores, arch …"""


def freeze_attributes(data: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a JSON or YAML map: sorted, tuples for lists."""
    return FrozenMap(sorted((name, tuple(each) if isinstance(each, list) else each) for name, each in data.items()))


Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8"]
"""The precision in which a target computes float32 models. int8: quantised models, before or by ``quantize``."""


# --------------------------------------------------------------------------- models


@dataclass(frozen=True)
class InputSpec:
    """One model input as fixed by the user: ``shape`` replaces dynamic dimensions."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    """NumPy's name of the type. None: the type in the ONNX file."""
    low: float | None = None
    high: float | None = None
    """Range of the seeded reference inputs, [low, high). None: [-1, 1) for floats, [0, 2) for integers."""
    value: str | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """JSON: a number for all elements, or lists with one for each. The input becomes a constant of the model."""


@dataclass(frozen=True)
class Tolerance:
    """The limits of a package's errors: |got - want| <= atol + rtol * |want| for every element.

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
        """Return the tolerance for outputs computed in that precision, at least this one."""
        default = REDUCED_TOLERANCE.get(precision, self)
        names = tuple(field.name for field in fields(Tolerance))
        return Tolerance(**{name: max(getattr(default, name), getattr(self, name)) for name in names})


REDUCED_TOLERANCE: dict[str, Tolerance] = {
    "tf32": Tolerance(rtol=1e-2, atol=1e-3, of_largest=0.02),
    "fp16": Tolerance(rtol=1e-2, atol=1e-3, of_largest=0.02),
    "bf16": Tolerance(rtol=5e-2, atol=1e-3, of_largest=0.1),
    "int8": Tolerance(of_largest=5 / 255),
}
"""Rounding errors grow with the largest values of a sum, not with the result: hence the share of the largest output.

5/255 is five steps of 8 bits: in a quantised network a tie that is rounded the other way is a whole step later on.
"""


@dataclass(frozen=True)
class Accuracy:
    """Real inputs (paths of pictures, or of one .npz, relative to the project's root), and the required accuracy.

    A threshold of None is not checked; `benchmarking.agreement.Agreement` defines the figures.
    """

    kind: Literal["images", "inputs"]
    paths: tuple[str, ...]
    top1: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The least share of the samples."""
    rms: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The largest accepted value."""
    of_largest: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The largest accepted value."""


@dataclass(frozen=True)
class Preprocess:
    """The conversion of a picture into the input tensor: resize, order, times ``scale``, minus mean, over std."""

    input: str | None = None
    """The name of the input. None: the only one."""
    resize: Literal["stretch", "letterbox", "crop"] = "stretch"
    color: Literal["rgb", "bgr", "gray"] = "rgb"
    scale: float = 1.0 / 255.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    layout: Literal["NCHW", "NHWC"] = "NCHW"


@dataclass(frozen=True)
class SimplifyOptions:
    """The options of the simplify stage. ``rtol`` and ``atol`` are its numeric gate's."""

    enabled: bool = True
    skip: tuple[str, ...] = ()
    """Optimiser passes of onnxsim to leave out."""
    seed: int = 0
    rtol: float = 1e-3
    atol: float = 1e-4


@dataclass(frozen=True)
class ModelSpec:
    """A network: name, source, inputs, preprocessing."""

    name: str
    source: Source
    inputs: tuple[InputSpec, ...] = ()
    tolerance: Tolerance = Tolerance()
    preprocess: Preprocess | None = None
    labels: str | None = None
    """The path, relative to the project's root, of a text file with one label a line."""
    simplify: SimplifyOptions = SimplifyOptions()
    enabled: bool = True
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    """Globs of target names."""
    reduced_tolerance: FrozenMap[Precision, FrozenMap[str, float]] = FrozenMap()
    """The model's tolerances for targets that compute in fp16, bf16 or int8: fields of a Tolerance."""
    accuracy: Accuracy | None = None
    quantize: Quantize | None = None

    def includes(self, target: str) -> bool:
        """Return whether the model is built for the target of that name."""
        return any(fnmatchcase(target, glob) for glob in self.include) and not any(
            fnmatchcase(target, glob) for glob in self.exclude
        )

    def tolerance_in(self, precision: Precision) -> Tolerance:
        """Return the tolerance in that precision. Fields that the model does not set are at least those of fp32."""
        return replace(self.tolerance.at_least(precision), **self.reduced_tolerance.get(precision, FrozenMap()))


# --------------------------------------------------------------------------- targets


@dataclass(frozen=True)
class TuneOptions:
    """The search of Tasks without enough records."""

    trials: int | None = None
    """The largest number of measurements for a cell, in equal shares. Unused shares go where they pay most.

    None: trials_per_task is the only limit.
    """
    trials_per_task: int = 64
    number: int = 1
    repeat: int = 3
    min_repeat_ms: int = 10
    seed: int = 0
    patience: int | None = 48
    """The number of candidates without an improvement after which a Task is left. None: never."""
    cost_model: Literal["xgb", "random"] = "xgb"
    ops: tuple[str, ...] = ("*",)
    """Globs of Task names to search. The others are compiled from the records that they have."""
    algorithms: tuple[str, ...] = field(default=("direct", "winograd2", "winograd4"), metadata=OMIT_WHEN_DEFAULT)
    """The permitted algorithms of convolutions. If there are several, measurements choose the best."""
    minutes: float | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The time in minutes after which a run proposes only the first candidates of each Task. None: no limit."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """The measurement of latency: the median over ``repeat`` samples of ``number`` calls each."""

    number: int = 1
    repeat: int = 50
    threads: int | None = None
    """The number of threads. None: the target's num-cores."""
    baselines: tuple[str, ...] = ("onnxruntime",)
    """The programs that are timed in turns with the package: onnxruntime, openvino, tvm-untuned."""


@dataclass(frozen=True)
class TargetSpec:
    """Hardware to build for. ``attributes`` are resolved: the lock's replace `native` and `from_device`."""

    name: str
    kind: str
    """A row of `targets/table.py`: llvm, cuda, vulkan."""
    attributes: Attributes = FrozenMap()
    host: Attributes = FrozenMap()
    """For GPU kinds: attributes of the llvm target that runs the host code."""
    precision: Precision = "fp32"
    link: str = "auto"
    """``auto``: the bundled ziglang; or the name of a compiler command."""
    glibc: str | None = None
    measured_on: str | None = None
    """The device class whose records elect winners (LLVM's name of the CPU, or a board's name)."""
    device: DeviceSpec = LocalDevice()
    tune: TuneOptions = TuneOptions()
    benchmark: BenchmarkOptions = BenchmarkOptions()
    unresolved: str | None = None
    """The reason why the target cannot be used yet (`native` without a lock), with the remedy. None: usable."""
    enabled: bool = True

    @property
    def cpu(self) -> Attributes:
        """The attributes of the llvm target: the host's if kernels run on a GPU, else its own."""
        return self.host or self.attributes

    @property
    def num_cores(self) -> int:
        """The number of threads that tuning and benchmarking use. 1 if the target states none."""
        value = self.cpu.get("num-cores", 1)
        return value if isinstance(value, int) else 1


@dataclass(frozen=True)
class CacheSpec:
    """The folder through which clones share steps' outputs, and its size limit."""

    path: Path
    """An absolute path."""
    size: int = 5_000_000_000
    """The size limit, in bytes."""


@dataclass(frozen=True)
class Project:
    """Both YAML files, checked, and their folder."""

    root: Path
    models: tuple[ModelSpec, ...]
    targets: tuple[TargetSpec, ...]
    cache: CacheSpec | None = None
