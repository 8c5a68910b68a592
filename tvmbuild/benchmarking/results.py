"""The results of benchmarks, as they are stored in result.json and in the history. It imports no slow module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tvmbuild.benchmarking.agreement import Agreement, read_agreement
from tvmbuild.benchmarking.estimates import Estimate, Latency, read_estimate, read_latency
from tvmbuild.benchmarking.frames.results import FrameResult, read_frames
from tvmbuild.benchmarking.plain_fields import read_fields
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.package.profile import OperatorRow

_Any = TypeVar("_Any")

RESULT_FORMAT = 2
"""The format version of result.json and of the history's lines. Results of another version are ignored."""


@dataclass(frozen=True)
class Rival:
    """A baseline that was timed in turns with the package."""

    name: str
    version: str
    latency: Latency
    ratio: Estimate
    """The package's latency divided by the baseline's."""


@dataclass(frozen=True)
class Absent:
    """A baseline that was requested and could not be timed."""

    name: str
    reason: str
    """The reason why the baseline could not be timed, with the remedy."""


@dataclass(frozen=True)
class Product:
    """The package that was timed."""

    target: str
    """The target's name."""
    target_digest: str
    """The digest of those properties of the target on which the generated code depends."""
    sha256: str
    """The SHA-256 of the package's file."""
    size: int
    """The size of the package's file in bytes."""
    tasks: int
    """The number of Tasks in the model."""
    covered: int
    """The number of Tasks that have a record."""


@dataclass(frozen=True)
class SizeResult:
    """The benchmark of one size of a package whose shapes vary, except the largest."""

    size: str
    """The size's name, for example T16."""
    latency: Latency
    rivals: tuple[Rival, ...]
    max_abs_error: float
    max_rel_error: float

    def to_json(self) -> dict[str, object]:
        """Return the value in `sizes` of result.json."""
        return {
            "size": self.size,
            "latency_ms": self.latency.to_json(),
            "baselines": [_rival_to_json(each) for each in self.rivals],
            "max_abs_error": self.max_abs_error,
            "max_rel_error": self.max_rel_error,
        }


@dataclass(frozen=True)
class Result:
    """One benchmark of one cell, or of a package without a cell."""

    cell: str
    product: Product
    threads: int
    latency: Latency
    rivals: tuple[Rival, ...]
    absent: tuple[Absent, ...]
    machine: MachineState
    max_abs_error: float
    max_rel_error: float
    peak_memory_mb: float | None = None
    """The peak of the process's memory in MiB, with Python and the runtime."""
    call_memory_mb: float | None = None
    """The memory in MiB that a call takes itself, for its workspace and scratch. None: it is not known."""
    warnings: tuple[str, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    """The times of the operators in one run, the longest first. Empty if no profile was made."""
    accuracy: Agreement | None = None
    """The agreement with the original model on real inputs. None if the model's `accuracy:` names no real inputs."""
    frames: FrameResult | None = None
    """The benchmark from a frame to the result. None: the package takes no frames and makes no results."""
    sizes: tuple[SizeResult, ...] = ()
    """The benchmarks of the other sizes, the smallest first. The other fields are about the largest."""

    def to_json(self) -> dict[str, object]:
        """Return the result as the JSON value of result.json. `read_result` is the inverse."""
        measured = [_rival_to_json(rival) for rival in self.rivals]
        return {
            "format": RESULT_FORMAT,
            "cell": self.cell,
            "package": asdict(self.product),
            "threads": self.threads,
            "latency_ms": self.latency.to_json(),
            "baselines": [*measured, *({"name": each.name, "missing": each.reason} for each in self.absent)],
            "machine": asdict(self.machine),
            "max_abs_error": self.max_abs_error,
            "max_rel_error": self.max_rel_error,
            "peak_memory_mb": self.peak_memory_mb,
            **({} if self.call_memory_mb is None else {"call_memory_mb": self.call_memory_mb}),
            "warnings": list(self.warnings),
            "operators": [row.to_json() for row in self.operators],
            **({} if self.accuracy is None else {"accuracy": self.accuracy.to_json()}),
            **({} if self.frames is None else {"frames": self.frames.to_json()}),
            **({"sizes": [each.to_json() for each in self.sizes]} if self.sizes else {}),
        }


@dataclass(frozen=True)
class EmulatedResult:
    """The result of a cell on an emulated device: the errors of its outputs, without times."""

    cell: str
    product: Product
    threads: int
    machine: MachineState
    max_abs_error: float
    max_rel_error: float
    accuracy: Agreement | None = None
    frames: FrameResult | None = None

    def to_json(self) -> dict[str, object]:
        """Return the result as the JSON value of result.json. `read_emulated` is the inverse."""
        return {
            "format": RESULT_FORMAT,
            "emulated": True,
            "cell": self.cell,
            "package": asdict(self.product),
            "threads": self.threads,
            "latency_ms": None,
            "machine": asdict(self.machine),
            "max_abs_error": self.max_abs_error,
            "max_rel_error": self.max_rel_error,
            **({} if self.accuracy is None else {"accuracy": self.accuracy.to_json()}),
            **({} if self.frames is None else {"frames": self.frames.to_json()}),
        }


def read_result(data: Mapping[str, Any]) -> Result | None:
    """Parse the output of `Result.to_json`. Return None if it is damaged, of another version, or an emulated result."""
    return _read_with(_read, data, emulated=False)


def read_emulated(data: Mapping[str, Any]) -> EmulatedResult | None:
    """Parse the output of `EmulatedResult.to_json`. Return None if it is damaged, of another version, or timed."""
    return _read_with(_read_emulated, data, emulated=True)


def _read_with(read: Callable[[Mapping[str, Any]], _Any], data: Mapping[str, Any], *, emulated: bool) -> _Any | None:
    if data.get("format") != RESULT_FORMAT or data.get("emulated", False) is not emulated:
        return None
    try:
        return read(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _read_emulated(data: Mapping[str, Any]) -> EmulatedResult:
    return EmulatedResult(
        cell=str(data["cell"]),
        product=read_fields(Product, data["package"]),
        threads=int(data["threads"]),
        machine=read_fields(MachineState, data["machine"]),
        max_abs_error=float(data["max_abs_error"]),
        max_rel_error=float(data["max_rel_error"]),
        accuracy=read_agreement(data["accuracy"]) if "accuracy" in data else None,
        frames=read_frames(data["frames"]) if "frames" in data else None,
    )


def _read(data: Mapping[str, Any]) -> Result:
    memory, of_call = data["peak_memory_mb"], data.get("call_memory_mb")
    return Result(
        cell=str(data["cell"]),
        product=read_fields(Product, data["package"]),
        threads=int(data["threads"]),
        latency=read_latency(data["latency_ms"]),
        rivals=tuple(_read_rival(each) for each in data["baselines"] if "missing" not in each),
        absent=tuple(
            Absent(str(each["name"]), str(each["missing"])) for each in data["baselines"] if "missing" in each
        ),
        machine=read_fields(MachineState, data["machine"]),
        max_abs_error=float(data["max_abs_error"]),
        max_rel_error=float(data["max_rel_error"]),
        peak_memory_mb=None if memory is None else float(memory),
        call_memory_mb=None if of_call is None else float(of_call),
        warnings=tuple(str(warning) for warning in data["warnings"]),
        operators=tuple(read_fields(OperatorRow, row) for row in data["operators"]),
        accuracy=read_agreement(data["accuracy"]) if "accuracy" in data else None,
        frames=read_frames(data["frames"]) if "frames" in data else None,
        sizes=tuple(_read_size(each) for each in data.get("sizes", ())),
    )


def _read_size(data: Mapping[str, Any]) -> SizeResult:
    return SizeResult(
        size=str(data["size"]),
        latency=read_latency(data["latency_ms"]),
        rivals=tuple(map(_read_rival, data["baselines"])),
        max_abs_error=float(data["max_abs_error"]),
        max_rel_error=float(data["max_rel_error"]),
    )


def _rival_to_json(rival: Rival) -> dict[str, object]:
    times = {"latency_ms": rival.latency.to_json(), "ratio": rival.ratio.to_json("value")}
    return {"name": rival.name, "version": rival.version, **times}


def _read_rival(data: Mapping[str, Any]) -> Rival:
    latency, ratio = read_latency(data["latency_ms"]), read_estimate(data["ratio"], "value")
    return Rival(str(data["name"]), str(data["version"]), latency, ratio)
