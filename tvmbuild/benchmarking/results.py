"""The results of benchmarks, as values in result.json and in the history. Imports no slow module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tvmbuild.benchmarking.agreement import Agreement, read_agreement
from tvmbuild.benchmarking.estimates import Estimate, Latency, read_estimate, read_latency
from tvmbuild.benchmarking.plain_fields import read_fields
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.package.profile import OperatorRow

_Any = TypeVar("_Any")

RESULT_FORMAT = 2
"""The version of result.json and of the history's lines. A result of another version counts as not benchmarked."""


@dataclass(frozen=True)
class Rival:
    """A baseline that was timed in turns with the package."""

    name: str
    version: str
    latency: Latency
    ratio: Estimate
    """The package's time over the baseline's."""


@dataclass(frozen=True)
class Absent:
    """A baseline that was requested and could not be timed."""

    name: str
    reason: str
    """The reason, with the remedy."""


@dataclass(frozen=True)
class Product:
    """The package that was timed."""

    target: str
    """The target's name."""
    target_digest: str
    """The digest of the target's properties that code generation uses."""
    sha256: str
    size: int
    tasks: int
    covered: int
    """The number of Tasks, and of those with a record."""


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
    warnings: tuple[str, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    """The operators of one run, the longest first. Empty: not requested."""
    accuracy: Agreement | None = None
    """None: the model names no real inputs."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. `read_result` is the inverse."""
        measured = [
            {
                "name": rival.name,
                "version": rival.version,
                "latency_ms": rival.latency.to_json(),
                "ratio": rival.ratio.to_json("value"),
            }
            for rival in self.rivals
        ]
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
            "warnings": list(self.warnings),
            "operators": [row.to_json() for row in self.operators],
            **({} if self.accuracy is None else {"accuracy": self.accuracy.to_json()}),
        }


@dataclass(frozen=True)
class EmulatedResult:
    """The result of a cell on an emulated device: the check of its numbers, without times."""

    cell: str
    product: Product
    threads: int
    machine: MachineState
    max_abs_error: float
    max_rel_error: float
    accuracy: Agreement | None = None

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. `read_emulated` is the inverse."""
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
        }


def read_result(data: Mapping[str, Any]) -> Result | None:
    """Read the value of `Result.to_json`. None: damaged, of another version, or from an emulated device."""
    return _read_with(_read, data, emulated=False)


def read_emulated(data: Mapping[str, Any]) -> EmulatedResult | None:
    """Read the value of `EmulatedResult.to_json`. None: damaged, of another version, or a timed result."""
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
    )


def _read(data: Mapping[str, Any]) -> Result:
    memory = data["peak_memory_mb"]
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
        warnings=tuple(str(warning) for warning in data["warnings"]),
        operators=tuple(read_fields(OperatorRow, row) for row in data["operators"]),
        accuracy=read_agreement(data["accuracy"]) if "accuracy" in data else None,
    )


def _read_rival(data: Mapping[str, Any]) -> Rival:
    latency, ratio = read_latency(data["latency_ms"]), read_estimate(data["ratio"], "value")
    return Rival(str(data["name"]), str(data["version"]), latency, ratio)
