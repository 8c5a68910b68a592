"""Measured choices: `records/<target>/choices/<graph>.json` says how each convolution of a graph is computed.

What was not measured is computed as the graph says by rule. The graph's digest is of its direct Tasks, so a retrained
model has the same choices. No tvm here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import choices_folder
from tvmbuild.records.conflicts import check_conflict
from tvmbuild.records.quarantine import installed_tvm
from tvmbuild.records.task_file import ResolvedTarget

FORMAT = 1
DIRECT = "direct"


@dataclass(frozen=True)
class Graph:
    """What `tasks.json` says of a graph that has something to choose."""

    digest: str
    """16 hex digits."""
    convolutions: tuple[str, ...]
    """Signatures of those that can be computed in several ways, sorted."""
    by_rule: FrozenMap[str, str] = FrozenMap()
    """Signature → algorithm where nothing was measured, sorted; one that is absent is direct."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value."""
        return {"digest": self.digest, "convolutions": list(self.convolutions), "by_rule": dict(self.by_rule)}


@dataclass(frozen=True)
class Choice:
    """How one convolution is computed, and the seconds of each algorithm that was measured, all its calls together."""

    algorithm: str
    measured_on: str
    seconds: FrozenMap[str, float] = FrozenMap()


@dataclass(frozen=True)
class Choices:
    """What a choices file says, by signature; nothing where it counts as absent, and ``problem`` says why."""

    by_signature: Mapping[str, Choice]
    problem: str | None = None

    def list_undecided(self, graph: Graph) -> tuple[str, ...]:
        """Return the signatures for which nothing was chosen yet."""
        return tuple(signature for signature in graph.convolutions if signature not in self.by_signature)

    def algorithms(self, graph: Graph | None, allowed: Collection[str]) -> FrozenMap[str, str]:
        """Return what `schedule.json` says: signature → algorithm, sorted, of those that are not direct.

        What was measured, else what is by rule; direct where that is not allowed.
        """
        measured = {signature: choice.algorithm for signature, choice in self.by_signature.items()}
        chosen = {**(graph.by_rule if graph is not None else {}), **measured}
        return FrozenMap(sorted((s, each) for s, each in chosen.items() if each != DIRECT and each in allowed))


def describe_graph(tasks: Iterable[tuple[str, int]], by_rule: Mapping[str, str]) -> Graph:
    """Return the graph with these direct Tasks, (key, calls) each, and these signatures, each with its algorithm."""
    digest = hashlib.sha256(canonical_json(sorted(tasks)).encode()).hexdigest()
    others = {signature: algorithm for signature, algorithm in by_rule.items() if algorithm != DIRECT}
    return Graph(digest[:16], tuple(sorted(by_rule)), FrozenMap(sorted(others.items())))


def read_graph(path: Path) -> Graph | None:
    """Return the graph of a `tasks.json`, None where it has nothing to choose; raises as `read_tasks` does."""
    data = json.loads(path.read_text(encoding="utf-8")).get("graph")
    if data is None:
        return None
    by_rule = FrozenMap(sorted((str(name), str(algorithm)) for name, algorithm in data["by_rule"].items()))
    return Graph(str(data["digest"]), tuple(str(each) for each in data["convolutions"]), by_rule)


def choices_path(folder: Path, graph: Graph) -> Path:
    """Return the graph's file below the target's records."""
    return choices_folder(folder) / f"{graph.digest}.json"


def read_choices(folder: Path, graph: Graph | None, target: ResolvedTarget) -> Choices:
    """Return what was chosen for the graph; ``folder`` is `records/<target>`.

    A file that is damaged, or of another TVM version or other target attributes, counts as absent. TvmbuildError where
    git has left both sides of a merge in it.
    """
    if graph is None:
        return Choices({})
    path = choices_path(folder, graph)
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
        choices = {str(signature): _choice(row) for signature, row in data["convolutions"].items()}
        reasons = [
            f"its format is {data['format']}, this tvmbuild reads {FORMAT}" if data["format"] != FORMAT else "",
            f"measured with TVM {data['tvm']}, not {installed_tvm()}" if data["tvm"] != installed_tvm() else "",
            "measured for other target attributes" if data["target"] != target.to_json() else "",
        ]
    except FileNotFoundError:
        return Choices({})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        check_conflict(
            text,
            path,
            f"take one side, `git checkout --ours -- {path}`, or delete the file: the next doit measures again",
        )
        choices, reasons = {}, [f"damaged ({type(error).__name__}: {error})"]
    reason = next((each for each in reasons if each), None)
    return Choices(choices) if reason is None else Choices({}, f"{path} counts as absent: {reason}")


def write_choices(folder: Path, graph: Graph, target: ResolvedTarget, choices: Choices) -> None:
    """Publish the graph's file."""
    rows = {
        signature: {
            "algorithm": choice.algorithm,
            "measured_on": choice.measured_on,
            "seconds": {name: float(f"{seconds:.4g}") for name, seconds in choice.seconds.items()},
        }
        for signature, choice in choices.by_signature.items()
    }
    head = {"format": FORMAT, "tvm": installed_tvm(), "target": target.to_json()}
    write_json(choices_path(folder, graph), {**head, "convolutions": rows})


def _choice(row: Mapping[str, Any]) -> Choice:
    if not isinstance(row["algorithm"], str) or not isinstance(row["measured_on"], str):
        raise TypeError("algorithm and measured_on are text")
    seconds = FrozenMap(sorted((str(name), float(value)) for name, value in row["seconds"].items()))
    return Choice(row["algorithm"], row["measured_on"], seconds)
