"""A model whose parts are built and compared with the original's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvmbuild.base.progress import progress_shown_by, report_progress
from tvmbuild.building.inspection import list_kernels
from tvmbuild.building.scheduling import import_for, lower_to_tasks, make_target, schedule_model
from tvmbuild.compiler.bugs import collect_bugs
from tvmbuild.debugging.builds import Bench, Build
from tvmbuild.debugging.errors import measure_error
from tvmbuild.debugging.finding import PlaceError, rate
from tvmbuild.debugging.places import Part, Places, Values
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.errors import TvmbuildError

_MOST_FUSED = 8
"""The number of fused nodes after which no more are looked for."""


@dataclass
class Probe:
    """The parts of a model, built as the cell is, with their errors. Each part is built once."""

    places: Places
    values: Values
    """The original's numbers: the inputs and all places."""
    rounding: Mapping[str, float]
    bench: Bench
    build: Build
    layout: str
    """The layout of the convolutions in the whole model."""
    builds: int = 1
    """The number of builds so far. The first one was the whole model."""
    _ends: dict[int, dict[str, float] | None] = field(default_factory=dict)

    def end_after(self, count: int) -> dict[str, float] | None:
        """Return the errors at the ends of the model of the first ``count`` nodes; None if it cannot be built."""
        if count not in self._ends:
            self._ends[count] = self.try_part(self.cut(count), self.build)
        return self._ends[count]

    def cut(self, count: int) -> Part:
        """Return the model of the first ``count`` nodes, which is the whole one if that is all."""
        if count < len(self.places.nodes):
            return self.places.cut_after(count, self.values)
        whole = bytes(self.places.proto.SerializeToString())
        return Part(whole, self.places.inputs, self.places.outputs, tuple(range(count)))

    def extract(self, nodes: list[int], last: int) -> Part:
        """Return the model of these nodes that ends with the node ``last``."""
        return self.places.extract(nodes, self.list_outputs(last), self.values)

    def list_outputs(self, number: int) -> list[str]:
        """Return the places of a node that are compared."""
        return [name for name in self.places.nodes[number].output if name in self.rounding]

    def take_whole(self, got: Values) -> dict[str, float]:
        """Return the errors at the outputs of the whole model, which was built and returned ``got``."""
        errors = self._ends[len(self.places.nodes)] = self.compare(got)
        return errors

    def compare(self, got: Values) -> dict[str, float]:
        """Return the errors of a package's outputs."""
        return {
            name: measure_error(got[name], self.values[name])
            for name in self.places.outputs
            if name in self.rounding and name in got
        }

    def try_part(self, part: Part, build: Build, bench: Bench | None = None) -> dict[str, float] | None:
        """Return the errors at the outputs of a part; None if it cannot be built or run.

        Raises DeviceLostError if the device becomes unreachable.
        """
        try:
            return self._measure(part, build, bench or self.bench)
        except DeviceLostError:
            raise
        except Exception:  # noqa: BLE001 - without the rest of the model, or a pass, the compiler may raise anything
            return None

    def _measure(self, part: Part, build: Build, bench: Bench) -> dict[str, float]:
        if not any(name in self.rounding for name in part.outputs):
            return {}
        self.builds += 1
        report_progress(f"build {self.builds}: {len(part.nodes)} of {len(self.places.nodes)} nodes")
        got = bench.compute(build, part.model, {name: self.values[name] for name in part.inputs})
        return {name: measure_error(got[name], self.values[name]) for name in part.outputs if name in self.rounding}

    def rate(self, errors: Mapping[str, float] | None) -> dict[str, float] | None:
        """Return the errors divided by those that rounding causes."""
        return None if errors is None else {name: rate(error, self.rounding[name]) for name, error in errors.items()}

    def describe(self, name: str, error: float) -> PlaceError:
        """Return a place with its error."""
        node = self.places.nodes[self.places.producers[name]]
        return PlaceError(node.name or node.output[0], node.op_type, name, error, self.rounding[name])

    def count_tasks(self, part: Part) -> Counter[tuple[str, str]]:
        """Return how often the lowered part calls each Task: key and name → calls. Nothing if it cannot be lowered."""
        try:
            imported = import_for(part.model, self.build.part_target, "part")
            with collect_bugs():
                _, tasks = lower_to_tasks(imported, make_target(self.build.part_target), self.build.schedule)
        except TvmbuildError:
            return Counter()
        return Counter({(task.key, task.name): task.weight for task in tasks})

    def name_rules(self, number: int) -> dict[str, str]:
        """Return Task key → the rules that schedule it, in the model that ends with the node ``number``."""
        part = self.places.cut_after(number + 1, self.values)
        try:
            with collect_bugs(), progress_shown_by(lambda _: None):
                scheduled = schedule_model(part.model, self.build.part_target, self.build.schedule, "part")
                return {kernel.key: kernel.rules for kernel in list_kernels(scheduled)}
        except Exception:  # noqa: BLE001 - the part's compiler is wrong, so that it may raise anything
            return {}

    def list_fused(self, number: int) -> tuple[Counter[tuple[str, str]], list[int]]:
        """Return the Tasks that the model has with the node ``number`` and not before, and the nodes that they fuse.

        A node is fused with its reader if the Tasks change when its result becomes an output.
        """
        whole = self.places.cut_after(number + 1, self.values)
        tasks = self.count_tasks(whole)
        new = tasks - self.count_tasks(self.places.cut_after(number, self.values)) if number else tasks
        fused, seen, waiting = [number], {number}, [number]
        while waiting and len(fused) < _MOST_FUSED:
            for name in self.places.list_read(waiting.pop()):
                before = self.places.producers[name]
                if before in seen or name not in self.rounding:
                    continue
                seen.add(before)
                outputs = list(dict.fromkeys([*whole.outputs, name]))
                if new - self.count_tasks(self.places.extract(whole.nodes, outputs, self.values)):
                    fused.append(before)
                    waiting.append(before)
        return new, sorted(fused)
