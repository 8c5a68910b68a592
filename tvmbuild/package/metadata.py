"""The contents of ``mod.json``, as values. They never contain a time, a host or an absolute path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Protocol, cast, get_args

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Attributes, Precision, Preprocess, freeze_attributes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata_check import check_metadata

FORMAT = 1


SLOW = "slow: "
"""The beginning of a note about a faster way that was not taken."""
BUG = "a bug in tvmbuild, please report it: "
"""The beginning of a note about a bug in tvmbuild, which used a simpler way instead."""


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a model: its ONNX name, static shape and NumPy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class TakesInputs(Protocol):
    """A package, or a model that becomes one: it takes arrays, and pictures by its preprocessing rules."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs."""

    @property
    def preprocess(self) -> Preprocess | None:
        """The conversion of a picture into one of the inputs. None: not specified."""


@dataclass(frozen=True)
class ModelInputs:
    """A model that has no package yet."""

    model: str
    inputs: tuple[TensorInfo, ...]
    preprocess: Preprocess | None = None


@dataclass(frozen=True)
class PackageTarget:
    """The target of the library."""

    name: str
    kind: str
    attributes: Attributes = FrozenMap()
    host: Attributes = FrozenMap()
    glibc: str | None = None
    precision: Precision = "fp32"
    """The precision of its computations. mod.json names it only if it is not fp32."""

    @property
    def on_gpu(self) -> bool:
        """Return whether its kernels run on a GPU, called by a CPU: the host."""
        return self.kind != "llvm"

    @property
    def cpu(self) -> Attributes:
        """Return the attributes of the CPU: the host's or its own."""
        return self.host if self.on_gpu else self.attributes

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. ``from_json`` is the inverse."""
        value: dict[str, object] = asdict(self)
        if self.precision == "fp32":
            del value["precision"]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PackageTarget:
        """Read a JSON value. Raises KeyError, TypeError or ValueError if it is malformed."""
        return cls(
            value["name"],
            value["kind"],
            freeze_attributes(value["attributes"]),
            freeze_attributes(value["host"]),
            value["glibc"],
            _read_precision(value),
        )


@dataclass(frozen=True)
class PackageCoverage:
    """The number of the model's Tasks, the number of Tasks with a record, and the names of the others."""

    tasks: int
    covered: int
    uncovered: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorInfo:
    """One function of the library that ``main`` calls. ``flops`` and ``bytes`` are those of one call."""

    function: str
    """The name in the library."""
    name: str
    """The name for people."""
    key: str
    """The key of its Task."""
    flops: int | None
    """The number of additions, multiplications and similar operations. None: they cannot be counted."""
    bytes: int | None
    """The least number of bytes read and written."""
    covered: bool
    """Whether the Task has a record."""


@dataclass(frozen=True)
class FileEntry:
    """One file of the archive."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class PackageInfo:
    """All of ``mod.json``."""

    model: str
    target: PackageTarget
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: Literal["lifted", "embedded"]
    """``lifted``: ``main`` takes the tensors of mod.params, sorted by name, after the inputs."""
    coverage: PackageCoverage
    layout: str
    """NHWC or NCHW: the layout of the convolutions inside, not of the inputs."""
    preprocess: Preprocess | None = None
    labels: tuple[str, ...] | None = None
    digests: FrozenMap[str, str] = FrozenMap()
    """Role → SHA-256 of every input file of the package's build."""
    tools: FrozenMap[str, str] = FrozenMap()
    """Tool → version."""
    notes: tuple[str, ...] = ()
    """Notes for its users. The terminal also shows a note that begins with ``SLOW`` or ``BUG``."""
    operators: tuple[OperatorInfo, ...] | None = None
    """None: an older package without this field."""
    files: tuple[FileEntry, ...] = field(default=())
    entry: str = "main"
    profiled: str = "main"
    """The function that a profiler calls instead: TVM's virtual machine reports only the calls of bytecode."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. ``from_json`` is the inverse."""
        value: dict[str, object] = {"format": FORMAT, **asdict(self)}
        files = {entry.name: {"sha256": entry.sha256, "size": entry.size} for entry in self.files}
        value.update(target=self.target.to_json(), files=files)
        return value

    @classmethod
    def from_json(cls, value: object) -> PackageInfo:
        """Check and read a JSON value. Raises TvmbuildError with the fault."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = value.get("format") if isinstance(value, dict) else type(value).__name__
            raise TvmbuildError(f"mod.json has the format {found!r}; this tvmbuild reads {FORMAT}", "build it again")
        try:
            check_metadata(value)
            return _read(value)
        except (TypeError, ValueError) as error:
            raise TvmbuildError(f"mod.json is damaged: {error}", "build it again") from error


def default_threads(info: PackageInfo, cores: int) -> int:
    """Return the number of cores that the package was tuned for, at most ``cores``."""
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
        preprocess=None if preprocess is None else Preprocess(**{k: _frozen(v) for k, v in preprocess.items()}),
        labels=None if labels is None else tuple(labels),
        digests=FrozenMap(sorted(value["digests"].items())),
        tools=FrozenMap(sorted(value["tools"].items())),
        notes=tuple(value["notes"]),
        operators=_operators(value.get("operators")),
        files=tuple(FileEntry(name, entry["sha256"], entry["size"]) for name, entry in value["files"].items()),
        entry=str(value["entry"]),
        profiled=str(value.get("profiled") or value["entry"]),
    )


def _read_precision(target: Mapping[str, Any]) -> Precision:
    precision = target.get("precision", "fp32")
    if precision not in get_args(Precision):
        raise ValueError(f"target.precision is {precision!r}")
    return cast("Precision", precision)


def _tensors(values: list[dict[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(v["name"], tuple(int(dim) for dim in v["shape"]), v["dtype"]) for v in values)


def _operators(values: list[dict[str, Any]] | None) -> tuple[OperatorInfo, ...] | None:
    names = [each.name for each in fields(OperatorInfo)]
    return None if values is None else tuple(OperatorInfo(**{name: v[name] for name in names}) for v in values)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
