"""The contents of ``mod.json`` as values. They contain no time, no host name and no absolute path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from tvmbuild.base.attributes import Attributes, Precision, freeze_attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.allocations import LargeArray, Scratch, read_largest, read_scratch
from tvmbuild.package.metadata_check import check_metadata
from tvmbuild.package.operator_info import OperatorInfo, join_operators, read_operators

if TYPE_CHECKING:
    from tvmbuild.base import frame_specs, postprocess_specs, preprocess_specs
    from tvmbuild.base.frame_specs import Frame
    from tvmbuild.base.postprocess_specs import Postprocess
    from tvmbuild.base.preprocess_specs import Preprocess
    from tvmbuild.package import size_functions
    from tvmbuild.package.size_functions import Calls, SizeFunction, SizeFunctions
else:  # most packages need none of them, and a session starts in half the time
    frame_specs = import_lazily("tvmbuild.base.frame_specs")
    postprocess_specs = import_lazily("tvmbuild.base.postprocess_specs")
    preprocess_specs = import_lazily("tvmbuild.base.preprocess_specs")
    size_functions = import_lazily("tvmbuild.package.size_functions")

FORMAT = 1


SLOW = "slow: "
"""The beginning of a note that a part of the model is slow, because a faster way was not possible."""
BUG = "a bug in tvmbuild, please report it: "
"""The beginning of a note about a bug in tvmbuild that made it use a simpler way."""


@dataclass(frozen=True)
class Count:
    """The count of an output's axis whose length depends on data."""

    axis: int
    place: int
    """The place of the length in the vector of lengths, int64, that ``main`` returns after the outputs."""


@dataclass(frozen=True)
class TensorInfo:
    """The description of an input or output of a model: ONNX name, static shape, and NumPy's name of the type."""

    name: str
    """The name in the ONNX file."""
    shape: tuple[int, ...]
    """The static shape."""
    dtype: str
    """NumPy's name of the type."""
    counts: tuple[Count, ...] = ()
    """The axes of an output whose length depends on data: ``shape`` has their largest length."""

    def to_json(self) -> dict[str, object]:
        """Return the tensor as a JSON value; only outputs with counts have the key ``counts``."""
        value: dict[str, object] = {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}
        return value | ({"counts": [asdict(each) for each in self.counts]} if self.counts else {})


class TakesInputs(Protocol):
    """A package, or a model without a package yet, as a taker of inputs: arrays, and pictures that it can convert."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The descriptions of the inputs."""

    @property
    def preprocess(self) -> Preprocess | None:
        """The rules for converting a picture into one of the inputs. None if the model has no rules."""


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of a model that has no package yet."""

    model: str
    inputs: tuple[TensorInfo, ...]
    preprocess: Preprocess | None = None


@dataclass(frozen=True)
class PackageTarget:
    """The target for which a package is built."""

    name: str
    """The target's name in targets.yaml."""
    kind: str
    """The target's kind: llvm, cuda or vulkan."""
    attributes: Attributes = FrozenMap()
    """TVM's attributes of the target."""
    host: Attributes = FrozenMap()
    """TVM's attributes of the CPU that launches a GPU's kernels. Empty for a CPU target."""
    glibc: str | None = None
    """The oldest version of glibc that the library supports, for example 2.28. None means the linker's default."""
    precision: Precision = "fp32"
    """The precision of the package's computations. mod.json contains it only if it is not fp32."""
    keep: tuple[str, ...] = ()
    """The ONNX nodes that stay in float32 in a precision of 16 bits. mod.json contains them only if there are any."""
    flags: tuple[str, ...] | None = None
    """The instruction sets that the CPU's code needs, as /proc/cpuinfo spells them. None in older packages."""

    @property
    def on_gpu(self) -> bool:
        """Return whether the package's kernels run on a GPU. Then a CPU, the host, launches them."""
        return self.kind != "llvm"

    @property
    def cpu(self) -> Attributes:
        """Return the attributes of the CPU that runs the library: the host's for a GPU, else the target's own."""
        return self.host if self.on_gpu else self.attributes

    def to_json(self) -> dict[str, object]:
        """Return the target as a JSON value. ``from_json`` is the inverse."""
        value: dict[str, object] = asdict(self)
        if self.precision == "fp32":
            del value["precision"]
        if self.keep:
            value["keep"] = list(self.keep)
        else:
            del value["keep"]
        if self.flags is None:
            del value["flags"]
        else:
            value["flags"] = list(self.flags)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PackageTarget:
        """Parse the output of ``to_json``. Raises KeyError, TypeError or ValueError if it is malformed."""
        return cls(
            value["name"],
            value["kind"],
            freeze_attributes(value["attributes"]),
            freeze_attributes(value["host"]),
            value["glibc"],
            _read_precision(value),
            tuple(map(str, value.get("keep", ()))),
            None if value.get("flags") is None else tuple(value["flags"]),
        )


@dataclass(frozen=True)
class PackageCoverage:
    """The coverage of the model's Tasks by records."""

    tasks: int
    """The number of Tasks."""
    covered: int
    """The number of Tasks with a record."""
    uncovered: tuple[str, ...] = ()
    """The names of the Tasks without a record."""


@dataclass(frozen=True)
class FileEntry:
    """The name, SHA-256 and size in bytes of a file in a package."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class PackageInfo:
    """The contents of ``mod.json``."""

    model: str
    """The model's name."""
    target: PackageTarget
    """The target for which the package is built."""
    inputs: tuple[TensorInfo, ...]
    """The inputs in the model's order."""
    outputs: tuple[TensorInfo, ...]
    """The outputs in the model's order."""
    params: Literal["lifted", "embedded"]
    """The place of the weights. ``embedded``: in the library. ``lifted``: in mod.params.

    If they are lifted, ``main`` takes the tensors of mod.params, sorted by name, as arguments after the inputs.
    """
    coverage: PackageCoverage
    """The coverage of the model's Tasks by records."""
    layout: str
    """The layout of the convolutions inside the model, NHWC or NCHW. The inputs keep the layout of the ONNX model."""
    preprocess: Preprocess | None = None
    """The rules for converting a picture into an input. None if the model has none."""
    frames: tuple[Frame, ...] = ()
    """The frames of a camera that the package takes. mod.json contains them only if there are any."""
    postprocess: tuple[Postprocess, ...] = ()
    """The results that the package makes of its outputs. mod.json contains them only if there are any."""
    sizes: SizeFunctions | None = None
    """The functions of a package whose shapes vary. ``inputs`` and ``outputs`` are then those of the largest size."""
    labels: tuple[str, ...] | None = None
    """The names of a classifier's classes, in the order of its scores. None if the model has none."""
    digests: FrozenMap[str, str] = FrozenMap()
    """Role of each input file of the package's build (model, schedule, labels) → SHA-256 of the file."""
    tools: FrozenMap[str, str] = FrozenMap()
    """Name of each tool of the build (TVM, LLVM, the linker) → its version."""
    notes: tuple[str, ...] = ()
    """Notes for the package's users. The report in the terminal shows those that begin with ``SLOW`` or ``BUG``."""
    operators: tuple[OperatorInfo, ...] | None = None
    """The functions that ``main`` calls. None in older packages, which lack this field."""
    files: tuple[FileEntry, ...] = field(default=())
    """SHA-256 and size of each other file of the package, which are checked before the package is loaded."""
    entry: str = "main"
    """The function that runs the model."""
    profiled: str = "main"
    """The function that a profiler calls instead of ``entry``, because TVM reports calls only inside of bytecode."""
    workspace: int | None = None
    """The bytes that the first call allocates and later ones use again, outputs included. None in older packages."""
    scratch: Scratch | None = None
    """The bytes that kernels allocate themselves. None in older packages."""
    largest: tuple[LargeArray, ...] = ()
    """The largest arrays of the package, the largest first."""

    def at_size(self, function: SizeFunction) -> PackageInfo:
        """Return the description of one size of the package only."""
        sizes = self.sizes
        if sizes is None:
            return self
        inputs = tuple(replace(each, shape=sizes.shape(each.name, function) or each.shape) for each in self.inputs)
        outputs = tuple(replace(each, shape=function.outputs[each.name]) for each in self.outputs)
        operators = self.operators if function.library == size_functions.MAIN else function.operators
        return replace(self, inputs=inputs, outputs=outputs, operators=operators, sizes=None)

    def at_inputs(self, shapes: Mapping[str, Sequence[int]]) -> PackageInfo:
        """Return the description of a package for inputs of these shapes only.

        Raises TvmbuildError, which lists the sizes, if this package does not take them.
        """
        return self if self.sizes is None else self._at_calls(self.sizes, self.sizes.plan(shapes, self.model))

    def at_values(self, values: Mapping[str, int]) -> PackageInfo:
        """Return the description of a package for inputs of this size only, given as letter → value.

        Raises TvmbuildError, which lists the sizes, if this package does not take it.
        """
        sizes = self.require_sizes()
        return self._at_calls(sizes, sizes.plan_size(values, self.model))

    def require_sizes(self) -> SizeFunctions:
        """Return the functions of all sizes. Raises TvmbuildError if the package has one shape."""
        if self.sizes is None:
            raise TvmbuildError(f"{self.model} has one shape, and no sizes to choose from", "leave the size out")
        return self.sizes

    def _at_calls(self, sizes: SizeFunctions, calls: Calls) -> PackageInfo:
        outputs = FrozenMap(sorted(sizes.shape_outputs(calls).items()))
        made = self.at_size(replace(calls.parts[0].function, values=calls.size.values, outputs=outputs))
        used = dict.fromkeys(part.function for part in calls.parts)
        return replace(made, operators=join_operators([self.at_size(each).operators for each in used]))

    def to_json(self) -> dict[str, object]:
        """Return the JSON value of mod.json. ``from_json`` is the inverse."""
        value: dict[str, object] = {"format": FORMAT, **asdict(self)}
        files = {entry.name: {"sha256": entry.sha256, "size": entry.size} for entry in self.files}
        value.update(target=self.target.to_json(), files=files)
        value["frames"] = [each.to_json() for each in self.frames]
        if self.sizes is None:
            del value["sizes"]
        else:
            value["sizes"] = self.sizes.to_json()
        value.update({side: [each.to_json() for each in getattr(self, side)] for side in ("inputs", "outputs")})
        for name in ("workspace", "scratch"):
            if value[name] is None:
                del value[name]
        if not self.largest:
            del value["largest"]
        if not self.frames:
            del value["frames"]
        if not self.postprocess:
            del value["postprocess"]
        else:
            value["postprocess"] = postprocess_specs.postprocess_to_json(self.postprocess)
        return value

    @classmethod
    def from_json(cls, value: object) -> PackageInfo:
        """Check and parse the JSON value of a mod.json. Raises TvmbuildError that names the fault."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = value.get("format") if isinstance(value, dict) else type(value).__name__
            raise TvmbuildError(f"mod.json has the format {found!r}; this tvmbuild reads {FORMAT}", "build it again")
        try:
            check_metadata(value)
            return _read(value)
        except (TypeError, ValueError) as error:
            raise TvmbuildError(f"mod.json is damaged: {error}", "build it again") from error


def default_threads(info: PackageInfo, cores: int) -> int:
    """Return the number of threads that the package was tuned for (its target's num-cores), at most ``cores``.

    A target without num-cores has one thread.
    """
    value = info.target.cpu.get("num-cores", 1)
    return min(value, cores) if isinstance(value, int) else 1


def _read(value: Mapping[str, Any]) -> PackageInfo:
    target, coverage, preprocess, labels = (value[key] for key in ("target", "coverage", "preprocess", "labels"))
    return PackageInfo(
        model=str(value["model"]),
        target=PackageTarget.from_json(target),
        inputs=_tensors(value["inputs"]),
        outputs=_tensors(value["outputs"]),
        params=value["params"],
        coverage=PackageCoverage(coverage["tasks"], coverage["covered"], tuple(coverage["uncovered"])),
        layout=str(value["layout"]),
        preprocess=None if preprocess is None else _read_preprocess(preprocess),
        frames=tuple(frame_specs.frame_from_json(each) for each in value.get("frames") or ()),
        postprocess=_read_postprocess(value.get("postprocess")),
        sizes=size_functions.SizeFunctions.from_json(value["sizes"]) if value.get("sizes") else None,
        labels=None if labels is None else tuple(labels),
        digests=FrozenMap(sorted(value["digests"].items())),
        tools=FrozenMap(sorted(value["tools"].items())),
        notes=tuple(value["notes"]),
        operators=read_operators(value.get("operators")),
        files=tuple(FileEntry(name, entry["sha256"], entry["size"]) for name, entry in value["files"].items()),
        entry=str(value["entry"]),
        profiled=str(value.get("profiled") or value["entry"]),
        workspace=value.get("workspace"),
        scratch=read_scratch(value.get("scratch")),
        largest=read_largest(value.get("largest")),
    )


def _read_preprocess(value: Mapping[str, Any]) -> Preprocess:
    return preprocess_specs.Preprocess(**{key: _frozen(each) for key, each in value.items()})


def _read_postprocess(value: Mapping[str, Any] | None) -> tuple[Postprocess, ...]:
    return postprocess_specs.postprocess_from_json(value) if value else ()


def _read_precision(target: Mapping[str, Any]) -> Precision:
    precision = target.get("precision", "fp32")
    if precision not in get_args(Precision):
        raise ValueError(f"target.precision is {precision!r}")
    return cast("Precision", precision)


def _tensors(values: list[dict[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(v["name"], tuple(int(dim) for dim in v["shape"]), v["dtype"], _counts(v.get("counts")))
        for v in values
    )


def _counts(values: list[dict[str, int]] | None) -> tuple[Count, ...]:
    return tuple(Count(each["axis"], each["place"]) for each in values or ())


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
