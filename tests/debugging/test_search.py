"""The search for the first wrong place, on models whose errors are numbers in a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tvmbuild.debugging.search import Origin, Questions, find_origin

LIMIT = 32.0


@dataclass
class Chain:
    """Nodes in a row. Each has its own error, and hands on what it reads."""

    own: Mapping[int, float]
    nodes: int = 40
    gain: Mapping[int, float] = field(default_factory=dict)
    """The factor by which a node changes an error that it reads."""
    unbuilt: Sequence[int] = ()
    """The numbers of nodes whose model cannot be built."""
    asked: list[int] = field(default_factory=list)

    def error(self, number: int) -> float:
        before = self.error(number - 1) if number else 1.0
        return max(self.own.get(number, 1.0), before * self.gain.get(number, 1.0))

    def end_after(self, count: int) -> dict[str, float] | None:
        self.asked.append(count)
        return None if count in self.unbuilt else {str(count - 1): self.error(count - 1)}

    def find(self) -> Origin | None:
        asked = Questions(
            self.end_after,
            lambda number: [str(number - 1)] if number else [],
            lambda number: self.own.get(number, 1.0),
        )
        return find_origin(asked, self.nodes, LIMIT)


@pytest.mark.parametrize("wrong", [0, 1, 17, 38, 39])
def test_one_wrong_node_is_found_with_few_builds(wrong: int) -> None:
    chain = Chain({wrong: 1e5})
    found = chain.find()
    assert found is not None
    assert (found.first, found.last, found.ratio, found.inputs) == (wrong, wrong, 1e5, 1.0 if wrong else 0.0)
    assert len(set(chain.asked)) <= 9


def test_a_right_model_is_built_once() -> None:
    chain = Chain({3: LIMIT})
    assert chain.find() is None
    assert chain.asked == [chain.nodes]


def test_a_node_that_enlarges_an_error_is_not_blamed() -> None:
    found = Chain({5: 200.0}, gain={30: 1e4}).find()
    assert found is not None
    assert found.last == 5


def test_a_node_that_makes_infinity_of_a_wrong_number_is_not_blamed() -> None:
    found = Chain({5: 4000.0}, gain={30: float("inf")}).find()
    assert found is not None
    assert found.last == 5


def test_a_node_that_makes_infinity_of_right_numbers_is_blamed() -> None:
    found = Chain({30: float("inf")}).find()
    assert found is not None
    assert found.last == 30


def test_of_two_wrong_nodes_the_worse_one_is_found() -> None:
    found = Chain({5: 300.0, 30: 1e6}).find()
    assert found is not None
    assert (found.last, found.inputs, found.alone) == (30, 300.0, 1e6)


def test_nodes_whose_models_cannot_be_built_share_the_blame() -> None:
    found = Chain({20: 1e5}, unbuilt=[20, 21, 22]).find()
    assert found is not None
    assert (found.first, found.last) == (19, 22)
