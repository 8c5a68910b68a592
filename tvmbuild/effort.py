"""How long searching a Task would take, from what the record files say that others took. No tvm here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from tvmbuild.records.store import TaskFile
from tvmbuild.steps import TuneStep

SAMPLE = 500
"""Record files read of one target: their names are digests, so the first are as good as any."""

_STEMS = {"dense": "matmul"}


@dataclass(frozen=True)
class Effort:
    """What one device class has put into one Task."""

    kind: str
    stem: str
    device_class: str
    candidates: int
    seconds: float
    ended: bool
    """No candidate was left: more trials would have cost nothing more."""

    def price(self, trials: int) -> float:
        """Return what so many trials of this Task would have cost."""
        return self.seconds / self.candidates * (min(trials, self.candidates) if self.ended else trials)


class History:
    """The efforts in a project's ``records`` folder; nothing is read before it is needed, and nothing twice."""

    def __init__(self, records: Path, device_class: str) -> None:
        self._records = records
        self._class = device_class
        self._efforts: dict[str, tuple[Effort, ...]] = {}
        self._known: dict[tuple[str, str, str, int], float | None] = {}

    def estimate(self, options: TuneStep, name: str, file: TaskFile | None, trials: int) -> float | None:
        """Return the seconds of ``trials`` candidates of the Task ``name``, whose record file is ``file``.

        This device class's own effort on the Task; else the median over Tasks of the target whose name begins with the
        same word, over all Tasks of the target, over the other targets of the kind; None without any history. Of each
        of these, other device classes' efforts count only where this one has none.
        """
        own = None if file is None else file.spent_on(self._class)
        if file is not None and own and file.searched_on(self._class):
            return own / file.searched_on(self._class) * trials
        where = (options.target, options.kind, stem(name), trials)
        if where not in self._known:
            self._known[where] = self._median(options, stem(name), trials)
        return self._known[where]

    def _median(self, options: TuneStep, word: str, trials: int) -> float | None:
        for level in self._levels(options.target, options.kind, word):
            efforts = [effort for effort in level if effort.device_class == self._class] or level
            if efforts:
                return median(effort.price(trials) for effort in efforts)
        return None

    def _levels(self, target: str, kind: str, word: str) -> Iterator[list[Effort]]:
        own = [effort for effort in self._read(target) if effort.kind == kind]
        yield [effort for effort in own if effort.stem == word]
        yield own
        others = sorted(path.name for path in self._records.glob("*") if path.is_dir() and path.name != target)
        yield [effort for other in others for effort in self._read(other) if effort.kind == kind]

    def _read(self, target: str) -> tuple[Effort, ...]:
        if target not in self._efforts:
            paths = islice(sorted((self._records / target).glob("*.json")), SAMPLE)
            self._efforts[target] = tuple(effort for path in paths for effort in read_efforts(path))
        return self._efforts[target]


def stem(name: str) -> str:
    """Return the first word of a Task's name, which says what it computes: `conv2d` of `conv2d_add_relu`."""
    word = name.split("_", 1)[0]
    return _STEMS.get(word, word)


def read_efforts(path: Path) -> tuple[Effort, ...]:
    """Return what the record file says; nothing of a file that says nothing sensible: a price is no place to complain.

    Only these few fields are looked at, so that hundreds of files cost little.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kind, word = str(data["target"]["kind"]), stem(str(data["name"]))
        rows = [(str(name), int(data["searched"][name]), float(spent)) for name, spent in data["spent"].items()]
        ended = frozenset(map(str, data["exhausted"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return ()
    return tuple(
        Effort(kind, word, name, candidates, seconds, name in ended)
        for name, candidates, seconds in rows
        if candidates > 0 and 0 < seconds < math.inf
    )
