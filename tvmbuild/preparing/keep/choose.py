"""The choice of operators that stay in floats, for a model in a reduced precision."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tvmbuild.base.kept_nodes import KeptShare
from tvmbuild.preparing.keep.errors import Arrays, OutputError
from tvmbuild.preparing.keep.groups import Group
from tvmbuild.preparing.keep.reduced import Reduced, Words
from tvmbuild.preparing.keep.search import Found, Judged, Kept, find_kept
from tvmbuild.preparing.reference import open_onnx

SHOWN = 6
"""The number of groups that a note names."""
MEASURED = 4
"""The number of samples on which each group is tried by itself."""

MOST = 0.5
"""The share of groups above which a choice tells how steady the accuracy of the float model is itself."""
MOVED = 1e-3
"""The largest change of the inputs that shows this, over their range: for pixels, a quarter of one step of 8 bits."""

Run = Callable[[Arrays], Arrays]
JudgeRun = Callable[[Run], Judged]
"""A function that judges the accuracy of a network, given the function that runs it."""


@dataclass(frozen=True)
class Choice:
    """The operators that stay in floats, with the accuracy before and after."""

    groups: tuple[KeptShare, ...]
    total: int
    """The number of groups that could stay in floats."""
    before: Judged
    after: Judged
    words: Words
    seconds: float = 0.0
    trials: int = 0
    by: str = "`keep: auto`"
    """The author of the choice in messages."""

    def describe(self) -> str:
        """Return the report's note about it."""
        if not self.groups:
            return f"{self.by} keeps nothing {self.words.kept}: {self.before.told}"
        cost = sum(each.cost for each in self.groups)
        listed = ", ".join(_show(each) for each in self._sort()[:SHOWN])
        more = f" and {len(self.groups) - SHOWN} more" if len(self.groups) > SHOWN else ""
        reduced, kept = self.words.reduced, self.words.kept
        return (
            f"{self.by} keeps {len(self.groups)} of {self.total} groups {kept}, about {cost:.0%} of the saved time: "
            f"{listed}{more}; all {reduced}: {self.before.told}; with these {kept}: {self.after.told}"
        )

    def _sort(self) -> list[KeptShare]:
        return sorted(self.groups, key=lambda each: (-(each.harm or 0.0), -each.cost))

    def follow(self, reduced: Reduced) -> Choice:
        """Return the same choice for another size of the model, without operators that its shapes made constants."""
        known = frozenset(name for group in reduced.groups for name in group.nodes)
        left = (replace(each, nodes=tuple(name for name in each.nodes if name in known)) for each in self.groups)
        return replace(self, groups=tuple(each for each in left if each.nodes))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value in `quantize.json`."""
        return {**self.tell(), "groups": [asdict(each) for each in self._sort()]}

    def tell(self) -> dict[str, Any]:
        """Return the figures of the search."""
        return {
            "total": self.total,
            "before": self.before.told,
            "after": self.after.told,
            "seconds": round(self.seconds, 1),
            "trials": self.trials,
        }

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the operators."""
        return frozenset(name for group in self.groups for name in group.nodes)


def _show(group: KeptShare) -> str:
    return group.name if group.harm is None else f"{group.name} ({group.harm:.0%} of the harm)"


class KeepSearch:
    """A network in a reduced precision, and the same network with some of its operators in floats."""

    def __init__(self, reduced: Reduced, samples: Sequence[Arrays], judge: JudgeRun) -> None:
        """Prepare for the ``samples`` on which each group is tried by itself, and the ``judge`` of whole sets."""
        self._reduced, self._judge, self._samples = reduced, judge, samples
        self._groups = {each.name: each for each in reduced.groups}

    @property
    def nodes(self) -> frozenset[str]:
        """The names of all operators that can stay in floats."""
        return frozenset(name for group in self._groups.values() for name in group.nodes)

    def read(self, found: Mapping[str, Any], judged: Judged) -> Choice:
        """Return the choice that `Choice.to_json` wrote, which was ``judged`` again."""
        groups = tuple(
            KeptShare(str(row["name"]), tuple(row["nodes"]), float(row["harm"]), float(row["cost"]))
            for row in found["groups"]
        )
        before, figures = Judged(is_enough=not groups, told=str(found["before"])), (found["seconds"], found["trials"])
        return Choice(groups, int(found["total"]), before, judged, self._reduced.words, *figures)

    def judge(self, nodes: frozenset[str]) -> Judged:
        """Judge the model with the named operators in floats, in each way of rounding; one that fails counts.

        A package of integers rounds sums half-way between two steps otherwise than ONNX Runtime, and a set of operators
        that fits one rounding of the samples alone would fail with another.
        """
        model = self._reduced.build(nodes).SerializeToString()
        first = judged = self._judge(self._open(model))
        for data, optimized in self._reduced.list_roundings(model):
            if judged.is_enough:
                judged = self._judge(self._open(data, optimized=optimized))
        return first if judged.is_enough else judged

    def find(self) -> Choice | None:
        """Search for the cheapest operators with which the accuracy is enough. None: no set of them is enough."""
        start = time.monotonic()
        run = open_onnx(self._reduced.original.SerializeToString(), "the float model")
        errors = OutputError([run(each) for each in self._samples])

        def measure(kept: Kept) -> float:
            compute = self._open(self._reduced.build(self._list_nodes(kept)).SerializeToString())
            return errors.measure([compute(each) for each in self._samples])

        found = find_kept(list(self._groups.values()), measure, lambda kept: self.judge(self._list_nodes(kept)))
        return None if found is None else self._describe(found, time.monotonic() - start)

    def _open(self, model: bytes, *, optimized: bool = False) -> Run:
        return open_onnx(model, f"the model {self._reduced.words.reduced}", optimized=optimized)

    def _list_nodes(self, kept: Kept) -> frozenset[str]:
        return frozenset(node for name in kept for node in self._groups[name].nodes)

    def _judge_moved(self) -> Judged | None:
        """Judge the float model on inputs that are changed a little. If it fails, no rounding can be enough.

        None: the inputs are integers, which are not changed.
        """
        if all(value.dtype.kind != "f" for value in self._samples[0].values()):
            return None
        run = open_onnx(self._reduced.original.SerializeToString(), "the float model", optimized=True)
        return self._judge(lambda inputs: run(_move(inputs, np.random.RandomState(0))))

    def _describe(self, found: Found, seconds: float) -> Choice:
        costs: Mapping[str, Group] = self._groups
        total = sum(each.cost for each in costs.values()) or 1.0
        groups = tuple(
            KeptShare(name, each.nodes, found.harm[name], each.cost / total)
            for name, each in costs.items()
            if name in found.kept
        )
        before = found.before
        if len(groups) > MOST * len(costs):
            moved = self._judge_moved()
            changed = f"the float model with inputs changed by up to {MOVED:.1%} of their range"
            before = replace(before, told=f"{before.told}; {changed}: {moved.told}") if moved else before
        return Choice(groups, len(costs), before, found.after, self._reduced.words, seconds, found.trials)


def _move(inputs: Arrays, random: np.random.RandomState) -> dict[str, np.ndarray]:
    """Return the inputs with each float changed at random by a share of the range of its input."""
    return {
        name: np.asarray(value + random.uniform(-MOVED, MOVED, value.shape) * np.ptp(value), value.dtype)
        if value.dtype.kind == "f"
        else value
        for name, value in inputs.items()
    }
