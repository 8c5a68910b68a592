from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from tvmbuild.base.files import canonical_json, pretty_json
from tvmbuild.base.frozen_map import FrozenMap

ITEMS = {"b": 2, "a": 1}
MAP = FrozenMap(ITEMS)


@dataclass(frozen=True)
class Holder:
    numbers: FrozenMap[str, int] = FrozenMap()


def test_it_is_made_of_a_map_or_of_pairs_and_keeps_their_order() -> None:
    assert MAP == FrozenMap(ITEMS.items()) == FrozenMap(MAP)
    assert list(MAP.items()) == list(ITEMS.items())
    assert (MAP["a"], MAP.get("c"), len(MAP), "b" in MAP) == (1, None, 2, True)
    assert not FrozenMap()


def test_it_equals_any_equal_map_and_nothing_else() -> None:
    assert MAP == FrozenMap({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert FrozenMap({"a": 1}) != MAP
    assert FrozenMap({"a": 1, "b": 3}) != MAP
    other: object = tuple(ITEMS.items())
    assert other != MAP


def test_equal_ones_hash_alike_whatever_their_order() -> None:
    assert hash(MAP) == hash(FrozenMap({"a": 1, "b": 2}))
    assert len({MAP, FrozenMap({"a": 1, "b": 2}), FrozenMap({"a": 2, "b": 1})}) == 2
    assert hash(FrozenMap({"inner": MAP})) == hash(FrozenMap({"inner": FrozenMap({"a": 1, "b": 2})}))


def test_it_does_not_change() -> None:
    items = dict(ITEMS)
    kept: Any = FrozenMap(items)
    items["c"] = 3
    assert kept == ITEMS
    with pytest.raises(TypeError):
        kept["c"] = 3
    with pytest.raises(TypeError):
        del kept["a"]
    with pytest.raises(AttributeError):
        kept.more = 3


def test_it_is_pickled_and_copied() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(MAP, protocol))  # noqa: S301 - our own bytes
        assert (again, list(again), hash(again)) == (MAP, list(MAP), hash(MAP))
    for copied in (copy.copy(MAP), copy.deepcopy(MAP), eval(repr(MAP))):  # noqa: S307 - our own text
        assert isinstance(copied, FrozenMap)
        assert copied == MAP


def test_it_is_an_object_in_json() -> None:
    nested = {"outer": FrozenMap({"inner": MAP, "empty": FrozenMap()})}
    assert canonical_json(nested) == '{"outer":{"empty":{},"inner":{"a":1,"b":2}}}'
    assert pretty_json(MAP) == pretty_json({"a": 1, "b": 2})
    with pytest.raises(TypeError):
        canonical_json({1, 2})


def test_a_dataclass_that_holds_one_is_hashed_and_taken_apart() -> None:
    holder = Holder(MAP)
    assert len({holder, replace(holder, numbers=FrozenMap({"a": 1, "b": 2})), Holder()}) == 2
    assert asdict(holder) == {"numbers": MAP}
    assert canonical_json(asdict(holder)) == '{"numbers":{"a":1,"b":2}}'
