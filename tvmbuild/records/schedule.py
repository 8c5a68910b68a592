"""The Schedule: the winning traces of one cell (a model on a target), and its file. This module imports no tvm."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json, pretty_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError

FORMAT = 1


@dataclass(frozen=True)
class Schedule:
    """The winning traces of one cell, one for each Task that has a record."""

    traces: FrozenMap[str, str] = FrozenMap()
    """Task key → canonical JSON text of the trace, sorted."""
    layout: str | None = None
    """The measured layout of the graph, or None for the default layout."""
    algorithms: FrozenMap[str, str] = FrozenMap()
    """Signature of a convolution → algorithm, sorted, for the convolutions that are not computed directly."""
    blocks: FrozenMap[str, tuple[str, ...]] = FrozenMap()
    """Task key → block names of the workload for which its winner was recorded, sorted."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schedule:
        """Return the Schedule from the JSON value of `schedule.json`. Raises KeyError or TypeError if it is not one."""
        winners = value["schedule"]
        return cls(
            FrozenMap({key: canonical_json(winners[key]["trace"]) for key in sorted(winners)}),
            value["layout"],
            FrozenMap(sorted(value.get("algorithms", {}).items())),
            FrozenMap({key: tuple(winners[key].get("blocks", ())) for key in sorted(winners)}),
        )

    def to_json(self) -> dict[str, object]:
        """Return the JSON value of `schedule.json`.

        It has no times, counts or dates, so equal winners give equal bytes.
        """
        traces = {key: json.loads(self._pretty(key)) for key in self.traces}
        return {**self._frame(), "schedule": traces}

    def to_text(self) -> str:
        """Return the text that `write_json` makes of `to_json`. A winner that many cells share is formatted once."""
        frame = pretty_json({**self._frame(), "schedule": {}})
        if not self.traces:
            return frame
        rows = ",\n".join(f"  {json.dumps(key)}: {self._pretty(key)}" for key in self.traces)
        return frame.replace('"schedule": {}', f'"schedule": {{\n{rows}\n }}')

    def _frame(self) -> dict[str, object]:
        chosen = {"algorithms": self.algorithms} if self.algorithms else {}
        return {**chosen, "format": FORMAT, "layout": self.layout}

    def _pretty(self, key: str) -> str:
        return _pretty_winner(self.traces[key], self.blocks.get(key, ()))


NO_RECORDS = Schedule()
"""A Schedule without winners: the rules schedule every Task, in the default layout."""


def join_schedules(schedules: Sequence[Schedule]) -> Schedule:
    """Return the winners of all schedules, which are those of the sizes of one cell."""
    if len(schedules) == 1:
        return schedules[0]
    traces, blocks, algorithms = (
        FrozenMap(sorted({key: value for each in maps for key, value in each.items()}.items()))
        for maps in zip(*((each.traces, each.blocks, each.algorithms) for each in schedules), strict=True)
    )
    return Schedule(traces, schedules[-1].layout, algorithms, blocks)


def read_schedule(path: Path) -> Schedule:
    """Read `schedule.json`. Raises TvmbuildError if another version of tvmbuild wrote it in another format."""
    value = json.loads(path.read_text(encoding="utf-8"))
    if value.get("format") != FORMAT:
        raise TvmbuildError(
            f"{path.name} has the format {value.get('format')!r}; this tvmbuild reads {FORMAT}",
            "run the cell's tune step again",
        )
    return Schedule.from_json(value)


@functools.lru_cache(maxsize=1024)
def _pretty_winner(trace: str, blocks: tuple[str, ...]) -> str:
    named = {"blocks": list(blocks)} if blocks else {}
    return pretty_json({**named, "trace": json.loads(trace)}).rstrip().replace("\n", "\n  ")
