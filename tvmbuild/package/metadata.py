"""What ``mod.json`` says, as values. No time, host or absolute path is ever in it."""

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
"""How a note begins that tells of a way that was not taken and would have been faster."""
BUG = "a bug in tvmbuild, please report it: "
"""How a note begins that tells of a fault of ours, in whose stead something simpler was done."""


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a model: its ONNX name, static shape and NumPy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class TakesInputs(Protocol):
    """What takes arrays, or pictures as its rules say: a package, or a model that becomes one."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What it takes."""

    @property
    def preprocess(self) -> Preprocess | None:
        """How a picture becomes one of them; None: it does not say."""


@dataclass(frozen=True)
class ModelInputs:
    """A model of which there is no package yet."""

    model: str
    inputs: tuple[TensorInfo, ...]
    preprocess: Preprocess | None = None


@dataclass(frozen=True)
class PackageTarget:
    """The target that the library was built for."""

    name: str
    kind: str
    attributes: Attributes = FrozenMap()
    host: Attributes = FrozenMap()
    glibc: str | None = None
    precision: Precision = "fp32"
    """What it computes in; mod.json names it only where it is another."""

    @property
    def on_gpu(self) -> bool:
        """Return whether its kernels run on a GPU, called by a CPU: the host."""
        return self.kind != "llvm"

    @property
    def cpu(self) -> Attributes:
        """Return the attributes of the CPU: the host's or its own."""
        return self.host if self.on_gpu else self.attributes

    def to_json(self) -> dict[str, object]:
        """Return the JSON value; ``from_json`` is the inverse."""
        value: dict[str, object] = asdict(self)
        if self.precision == "fp32":
            del value["precision"]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PackageTarget:
        """Read a JSON value; KeyError, TypeError or ValueError where it is none."""
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
    """How many Tasks the model has, how many got a record, and the names of the others."""

    tasks: int
    covered: int
    uncovered: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorInfo:
    """One function of the library that ``main`` calls; ``flops`` and ``bytes`` are one call's."""

    function: str
    """Its name in the library."""
    name: str
    """For people."""
    key: str
    """Of its Task."""
    flops: int | None
    """Additions, multiplications and the like; None where they cannot be counted."""
    bytes: int | None
    """What is read and written at the least."""
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
    """NHWC or NCHW: of the convolutions inside, not of the inputs."""
    preprocess: Preprocess | None = None
    labels: tuple[str, ...] | None = None
    digests: FrozenMap[str, str] = FrozenMap()
    """Role → SHA-256 of every file that the package was made from."""
    tools: FrozenMap[str, str] = FrozenMap()
    """Tool → version."""
    notes: tuple[str, ...] = ()
    """What its users should know; what begins with ``SLOW`` or ``BUG`` is said on the terminal, too."""
    operators: tuple[OperatorInfo, ...] | None = None
    """None: a package that was built before this was written."""
    files: tuple[FileEntry, ...] = field(default=())
    entry: str = "main"
    profiled: str = "main"
    """What a profiler calls in its stead: TVM's virtual machine tells of the calls of bytecode only."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value; ``from_json`` is the inverse."""
        value: dict[str, object] = {"format": FORMAT, **asdict(self)}
        files = {entry.name: {"sha256": entry.sha256, "size": entry.size} for entry in self.files}
        value.update(target=self.target.to_json(), files=files)
        return value

    @classmethod
    def from_json(cls, value: object) -> PackageInfo:
        """Check and read a JSON value; a TvmbuildError says what is wrong."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = value.get("format") if isinstance(value, dict) else type(value).__name__
            raise TvmbuildError(f"mod.json has the format {found!r}; this tvmbuild reads {FORMAT}", "build it again")
        try:
            check_metadata(value)
            return _read(value)
        except (TypeError, ValueError) as error:
            raise TvmbuildError(f"mod.json is damaged: {error}", "build it again") from error


def default_threads(info: PackageInfo, cores: int) -> int:
    """Return the cores that the package was tuned for, as far as there are so many."""
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
