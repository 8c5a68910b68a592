"""Measured choices: `records/<target>/choices/<graph>.json` gives the algorithm of each convolution of a graph.

A convolution that was not measured gets the algorithm that the rules choose. The graph's digest is the digest of its
direct Tasks, so a retrained model has the same choices. This module imports no tvm.
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
    """A graph with algorithms to choose, as `tasks.json` describes it."""

    digest: str
    """The digest of the Tasks of the graph with direct convolutions: 16 hex digits."""
    convolutions: tuple[str, ...]
    """The signatures of the convolutions that can be computed in several ways, sorted."""
    by_rule: FrozenMap[str, str] = FrozenMap()
    """Signature → algorithm that the rules choose for a convolution that was not measured, sorted. An absent
    convolution is direct.
    """

    def to_json(self) -> dict[str, object]:
        """Return the JSON value in `tasks.json`."""
        return {"digest": self.digest, "convolutions": list(self.convolutions), "by_rule": dict(self.by_rule)}


@dataclass(frozen=True)
class Choice:
    """The chosen algorithm of one convolution.

    ``seconds`` holds the time of each measured algorithm, for all calls of the convolution together.
    """

    algorithm: str
    measured_on: str
    seconds: FrozenMap[str, float] = FrozenMap()


@dataclass(frozen=True)
class Choices:
    """The contents of a choices file, by signature.

    They are empty if the file counts as absent. If it exists, ``problem`` then gives the reason.
    """

    by_signature: Mapping[str, Choice]
    problem: str | None = None

    def list_undecided(self, graph: Graph) -> tuple[str, ...]:
        """Return the signatures of the graph's convolutions that have no measured choice."""
        return tuple(signature for signature in graph.convolutions if signature not in self.by_signature)

    def algorithms(self, graph: Graph | None, allowed: Collection[str]) -> FrozenMap[str, str]:
        """Return signature → algorithm as in `schedule.json`: sorted, without direct convolutions.

        A measured choice comes before the choice of the rules. An algorithm that is not ``allowed`` becomes direct.
        """
        measured = {signature: choice.algorithm for signature, choice in self.by_signature.items()}
        chosen = {**(graph.by_rule if graph is not None else {}), **measured}
        return FrozenMap(sorted((s, each) for s, each in chosen.items() if each != DIRECT and each in allowed))


def describe_graph(tasks: Iterable[tuple[str, int]], by_rule: Mapping[str, str]) -> Graph:
    """Return the graph with these direct ``tasks``, each a (key, number of calls).

    ``by_rule`` maps the signature of each convolution to the algorithm that the rules choose.
    """
    digest = hashlib.sha256(canonical_json(sorted(tasks)).encode()).hexdigest()
    others = {signature: algorithm for signature, algorithm in by_rule.items() if algorithm != DIRECT}
    return Graph(digest[:16], tuple(sorted(by_rule)), FrozenMap(sorted(others.items())))


def read_graph(path: Path) -> Graph | None:
    """Return the graph in a `tasks.json`, or None if it has no algorithms to choose.

    Raises the errors of `read_tasks`.
    """
    data = json.loads(path.read_text(encoding="utf-8")).get("graph")
    if data is None:
        return None
    by_rule = FrozenMap(sorted((str(name), str(algorithm)) for name, algorithm in data["by_rule"].items()))
    return Graph(str(data["digest"]), tuple(str(each) for each in data["convolutions"]), by_rule)


def choices_path(folder: Path, graph: Graph) -> Path:
    """Return the path of the graph's choices file. ``folder`` is `records/<target>`."""
    return choices_folder(folder) / f"{graph.digest}.json"


def read_choices(folder: Path, graph: Graph | None, target: ResolvedTarget) -> Choices:
    """Return the measured choices for the graph. ``folder`` is `records/<target>`.

    A file that is damaged, or that belongs to another TVM version or other target attributes, counts as absent. Raises
    ConflictedRecordsError if git has left both sides of a merge in the file.
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
    """Publish the graph's choices file. ``folder`` is `records/<target>`."""
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
