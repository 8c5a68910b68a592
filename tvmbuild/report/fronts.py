"""The cells of a model in several precisions that no other cell beats in time, accuracy, size and energy at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvmbuild.base.specs import Accuracy
from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.package.memory import format_size
from tvmbuild.report.cells import CellReport
from tvmbuild.report.frames import find_joules, format_joules
from tvmbuild.report.latency import format_ms


@dataclass(frozen=True)
class Loss:
    """The loss of accuracy, in the figure that has a threshold."""

    value: float
    told: str
    """The loss in words."""
    measure: str
    """The figure and the unit of 100 times the value."""


@dataclass(frozen=True)
class Point:
    """A measured cell. Less is better in each figure."""

    cell: CellReport
    ms: float
    size: int
    loss: Loss
    joules: float | None
    """The machine's energy for one frame, or None if it is not known."""

    @property
    def precision(self) -> str:
        """The precision in which the package computes."""
        return self.cell.built_for.precision if self.cell.built_for else ""

    def beats(self, other: Point, *, by_energy: bool) -> bool:
        """Return whether the cell is better in one figure and no worse in the others."""
        ours, theirs = (
            (each.ms, each.size, each.loss.value, (each.joules or 0.0) if by_energy else 0.0) for each in (self, other)
        )
        return ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))

    def describe(self) -> str:
        """Return the target with its figures."""
        energy = "" if self.joules is None else f", {format_joules(self.joules)} J"
        figures = f"{format_ms(self.ms)} ms, {self.loss.told}, {format_size(self.size)}{energy}"
        return f"{self.cell.target} ({self.precision}, {figures})"


@dataclass(frozen=True)
class Front:
    """The cells of a model that one machine has timed in several precisions on real inputs."""

    model: str
    points: tuple[Point, ...]
    unbeaten: tuple[Point, ...]
    """The cells that no other beats, the fastest first."""
    by_energy: bool
    """True if the energy counts, too: it is known of all cells, and the same parts of the machine were measured."""
    best: Point | None
    """The fastest of them that keeps its thresholds, or None if none does."""

    @property
    def measure(self) -> str:
        """The compared figure of accuracy, with its unit."""
        return self.points[0].loss.measure

    def describe(self) -> str:
        """Return the fastest cell that keeps its thresholds, and all cells that no other beats, in one line."""
        listed = ", ".join(point.describe() for point in self.unbeaten)
        told = f"{self.best.cell.target} is recommended" if self.best else "no precision keeps the thresholds"
        figures = "time, accuracy, size and energy" if self.by_energy else "time, accuracy and size"
        return f"{self.model}: {told}; no other cell beats in {figures}: {listed}"


def list_fronts(cells: Sequence[CellReport]) -> list[Front]:
    """Return the cells of each model and machine with measured cells in at least two precisions."""
    return [front for model in dict.fromkeys(cell.model for cell in cells) for front in _list_fronts(model, cells)]


def describe_fronts(cells: Sequence[CellReport]) -> list[str]:
    """Return a line for each front."""
    return [front.describe() for front in list_fronts(cells)]


def _list_fronts(model: str, cells: Sequence[CellReport]) -> Iterator[Front]:
    points = [point for cell in cells if cell.model == model and (point := _measure(cell)) is not None]
    for machine in dict.fromkeys(_name_machine(point) for point in points):
        alike = tuple(point for point in points if _name_machine(point) == machine)
        if len({point.precision for point in alike}) < 2:
            continue
        kinds = {point.cell.built_for and point.cell.built_for.kind for point in alike}  # only CUDA counts the card
        by_energy = len(kinds) == 1 and all(point.joules is not None for point in alike)
        unbeaten = [point for point in alike if not any(other.beats(point, by_energy=by_energy) for other in alike)]
        right = [point for point in unbeaten if point.cell.failure is None]
        best = min(right, key=lambda each: each.ms, default=None)
        yield Front(model, alike, tuple(sorted(unbeaten, key=lambda each: each.ms)), by_energy, best)


def _measure(cell: CellReport) -> Point | None:
    result, agreement = cell.result, cell.accuracy
    if result is None or agreement is None or cell.package_bytes is None:
        return None
    loss = _find_loss(agreement, cell.asked)
    if loss is None:
        return None
    return Point(cell, result.latency.median.value, cell.package_bytes, loss, find_joules(cell))


def _find_loss(found: Agreement, asked: Accuracy | None) -> Loss | None:
    """Return the loss by the user's metric, or else by the first figure with a threshold, or else by rms."""
    if found.drop is not None:
        return Loss(found.drop, f"metric {found.drop:.4g} lower", "loss of the metric, points")
    if asked is not None and asked.top1 is not None:
        return Loss(1.0 - found.top1, f"top-1 differs for {1.0 - found.top1:.1%}", "samples with another top-1, %")
    by_largest = asked is not None and asked.rms is None and asked.of_largest is not None
    if by_largest and found.of_largest is not None:
        return Loss(found.of_largest, f"largest error {found.of_largest:.2%}", "largest error, %")
    return None if found.rms is None else Loss(found.rms, f"rms {found.rms:.2%}", "rms, %")


def _name_machine(point: Point) -> tuple[str, int]:
    result = point.cell.result
    return (result.machine.name, result.threads) if result else ("", 0)
