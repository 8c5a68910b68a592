"""The layout of constant weights that several sizes of a model agree on, so that a package stores them once.

A tile's width decides how its weights are packed. Each size has the best width for its own shapes; where another width
costs hardly more at every size, all take this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.schedules.access import Access
from tvmbuild.compiler.schedules.cpu.tile_size import Tile, choose_tile, rank_tiles
from tvmbuild.compiler.schedules.nest import Nest

MAX_LOSS = 1.02
"""The largest slowdown of a function, in expected cycles, that a shared layout may cause."""
Costs = Mapping[str, Mapping[int, float]]
"""Form of a weight → width of its packing, 0 for none → expected cycles over those of the best width."""


@dataclass
class Packings:
    """The widths that the sizes have agreed on, and the costs of all widths in the functions that were scheduled."""

    agreed: Mapping[str, int]
    """Form of a weight → width of its packing."""
    costs: dict[str, dict[int, float]] = field(default_factory=dict)

    def note(self, form: str, costs: Mapping[int, float]) -> None:
        """Add the costs of one function. A width has the cost of the function that it suits least."""
        known = self.costs.get(form, costs)
        self.costs[form] = {width: max(cost, known[width]) for width, cost in costs.items() if width in known}


_CURRENT: ContextVar[Packings | None] = ContextVar("packings", default=None)


@contextmanager
def share_packings(agreed: Mapping[str, int]) -> Iterator[Packings]:
    """Let the rules take the agreed widths, and yield what the widths cost in the functions scheduled meanwhile."""
    packings = Packings(agreed)
    token = _CURRENT.set(packings)
    try:
        yield packings
    finally:
        _CURRENT.reset(token)


def choose_packed_tile(nest: Nest, machine: Machine, rank: int, constants: Sequence[Access]) -> Tile | None:
    """Return the tile of a rank as `choose_tile` does, or the best one of the width that the sizes agreed on."""
    packings = _CURRENT.get()
    if packings is None or rank or len(constants) != 1:
        return choose_tile(nest, machine, rank, constants)
    ranking, form = rank_tiles(nest, machine, constants), _describe(constants[0])
    if not ranking:
        return None
    costs: dict[int, float] = {}
    for cycles, tile in ranking:
        costs.setdefault(_find_packing(tile), cycles / ranking[0][0])
    packings.note(form, costs)
    wanted = packings.agreed.get(form, _find_packing(ranking[0][1]))
    return next((tile for _, tile in ranking if _find_packing(tile) == wanted), ranking[0][1])


def agree(sizes: Sequence[Costs]) -> dict[str, int]:
    """Return form of a weight → the width for all sizes, if none of them loses more than `MAX_LOSS`.

    Forms for which all sizes have the same best width are left out.
    """
    agreed = {}
    for form in dict.fromkeys(form for costs in sizes for form in costs):
        having = [costs[form] for costs in sizes if costs.get(form)]
        common = [width for width in having[-1] if all(each.get(width, MAX_LOSS + 1) <= MAX_LOSS for each in having)]
        if common and len({_find_best(each) for each in having}) > 1:
            agreed[form] = min(common, key=lambda width: sum(each[width] for each in having))
    return agreed


def list_changes(agreed: Mapping[str, int], own: Costs) -> dict[str, int]:
    """Return the agreed widths that are not those of a size anyway."""
    return {form: width for form, width in agreed.items() if own.get(form) and _find_best(own[form]) != width}


def _find_best(costs: Mapping[int, float]) -> int:
    return next(iter(costs))


def _find_packing(tile: Tile) -> int:
    """Return the width to which the weights are packed, or 0 if they stay as they are."""
    return tile.width if tile.passes > 1 and tile.is_packed else 0


def _describe(load: Access) -> str:
    return f"{load.buffer.dtype} {list(load.shape)}"
