"""The part of a benchmark's result that is about frames, in the form of result.json. It imports no slow module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import Estimate, Latency, read_estimate, read_latency
from tvmbuild.benchmarking.plain_fields import read_fields

PARTS = ("prepare", "network", "result")
"""The parts of the way from a frame to the result, in their order. A package without a result lacks the last one."""


@dataclass(frozen=True)
class FrameCheck:
    """The comparison of a package's frames and results with the reference."""

    frames: int
    """The number of frames of the package that were compared."""
    results: int
    """The number of results that were compared."""
    largest_steps: float
    """The largest difference of a prepared frame, in steps of a byte."""
    score_error: float
    """The largest difference of a score."""
    place_error: float | None
    """The largest difference of a coordinate, in pixels. None: the results have no place."""

    def describe(self) -> str:
        """Return the numbers of frames and results, and the largest differences."""
        parts = (
            [f"{count(self.frames, 'frame')} within {self.largest_steps:.2g} steps of a byte"] if self.frames else []
        )
        if self.results:
            place = "" if self.place_error is None else f" and {self.place_error:.1e} pixels"
            parts.append(f"{count(self.results, 'result')} within a score of {self.score_error:.1e}{place}")
        return ", ".join(parts) or "nothing compared"


@dataclass(frozen=True)
class FrameTimes:
    """The times of one way from a frame to the result."""

    latency: Latency
    p99: float
    """The 99th percentile of the calls, in ms."""
    parts_ms: Mapping[str, float]
    """Name of a part, in the order of PARTS → its median time, measured by itself."""
    cpu_ms: float
    """The CPU time of the process for one frame, over all its threads."""
    joules: float | None = None
    """The energy for one frame. None: the machine does not tell it."""

    def to_json(self) -> dict[str, object]:
        """Return the times as a JSON value. `read_times` is the inverse."""
        return {
            "latency_ms": self.latency.to_json(),
            "p99_ms": round(self.p99, 5),
            "parts_ms": {name: round(value, 5) for name, value in self.parts_ms.items()},
            "cpu_ms": round(self.cpu_ms, 5),
            "joules": None if self.joules is None else round(self.joules, 6),
        }


@dataclass(frozen=True)
class FrameRival:
    """Another way from the frame to the result, which was timed in turns with the package."""

    name: str
    version: str
    times: FrameTimes
    ratio: Estimate
    """The package's time divided by the other way's."""
    agreement: str
    """The comparison of the results of both ways, in words."""


@dataclass(frozen=True)
class FrameResult:
    """The benchmark of a package from the frame to the result.

    ``times`` is None if nothing was timed, and ``notes`` say why. They also name all that was not compared.
    """

    frame: str | None
    """The frame that was timed, for example ``bgr8 [1080, 1920, 3], antialias``. None: the package takes no frames."""
    check: FrameCheck
    times: FrameTimes | None = None
    rivals: tuple[FrameRival, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    """Each way that was not timed, with the reason."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """The reasons to doubt the times."""
    found: int | None = None
    """The number of results in the frame that was timed."""
    temperature_c: float | None = None
    """The temperature of the hottest core at the end of the timing."""
    throttled: int | None = None
    """The number of times that heat slowed a core down during the timing. None: the system does not count."""
    clock: float | None = None
    """The fastest core's clock rate at the end, over the highest that the CPU has."""

    def to_json(self) -> dict[str, object]:
        """Return the result as the JSON value of the key `frames` of result.json. `read_frames` is the inverse."""
        rivals = [
            {
                "name": each.name,
                "version": each.version,
                **each.times.to_json(),
                "ratio": each.ratio.to_json("value"),
                "agreement": each.agreement,
            }
            for each in self.rivals
        ]
        return {
            "frame": self.frame,
            "check": asdict(self.check),
            **({} if self.times is None else self.times.to_json()),
            "baselines": [*rivals, *({"name": name, "missing": reason} for name, reason in self.absent)],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "found": self.found,
            "temperature_c": self.temperature_c,
            "throttled": self.throttled,
            "clock": self.clock,
        }


def read_times(data: Mapping[str, Any]) -> FrameTimes:
    """Parse the output of `FrameTimes.to_json`. Raises KeyError, TypeError or ValueError if it is malformed."""
    return FrameTimes(
        latency=read_latency(data["latency_ms"]),
        p99=float(data["p99_ms"]),
        parts_ms={name: float(data["parts_ms"][name]) for name in PARTS if name in data["parts_ms"]},
        cpu_ms=float(data["cpu_ms"]),
        joules=_read_number(data["joules"]),
    )


def read_frames(data: Mapping[str, Any]) -> FrameResult:
    """Parse the output of `FrameResult.to_json`. Raises KeyError, TypeError or ValueError if it is malformed."""
    found, throttled = data["found"], data["throttled"]
    return FrameResult(
        frame=None if data["frame"] is None else str(data["frame"]),
        check=read_fields(FrameCheck, data["check"]),
        times=read_times(data) if "latency_ms" in data else None,
        rivals=tuple(_read_rival(each) for each in data["baselines"] if "missing" not in each),
        absent=tuple((str(each["name"]), str(each["missing"])) for each in data["baselines"] if "missing" in each),
        notes=tuple(str(note) for note in data["notes"]),
        warnings=tuple(str(warning) for warning in data["warnings"]),
        found=None if found is None else int(found),
        temperature_c=_read_number(data["temperature_c"]),
        throttled=None if throttled is None else int(throttled),
        clock=_read_number(data["clock"]),
    )


def _read_rival(data: Mapping[str, Any]) -> FrameRival:
    ratio = read_estimate(data["ratio"], "value")
    return FrameRival(str(data["name"]), str(data["version"]), read_times(data), ratio, str(data["agreement"]))


def _read_number(value: Any) -> float | None:
    return None if value is None else float(value)
