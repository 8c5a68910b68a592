"""An immutable map for specs and steps, which are hashed, compared and sent between processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, overload

K = TypeVar("K")
V_co = TypeVar("V_co", covariant=True)


class FrozenMap(Mapping[K, V_co]):
    """A hashable Mapping, made of a mapping or of pairs.

    It keeps their order. It equals every Mapping with the same items, in any order.
    """

    __slots__ = ("_items",)
    _items: dict[K, V_co]

    @overload
    def __init__(self, items: Mapping[K, V_co] = ...) -> None: ...

    @overload
    def __init__(self, items: Iterable[tuple[K, V_co]]) -> None: ...

    def __init__(self, items: Mapping[K, V_co] | Iterable[tuple[K, V_co]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: K) -> V_co:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"
