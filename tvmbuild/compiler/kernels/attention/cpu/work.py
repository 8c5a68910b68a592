"""What a thread has while it computes a block of queries: its buffers, and where the block's numbers lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.sizes import Sizes
from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.kernels.attention.places import Places, find_places
from tvmbuild.compiler.kernels.vectors import local


@dataclass(frozen=True)
class Work(Places):
    """A block of queries of one head."""

    form: Attention
    sizes: Sizes
    first: Any
    """The block's first row."""
    queries: Any
    """[depth, rows], scaled."""
    scores: Any
    """[keys, rows] between key_tile more on either side."""
    sums: Any
    """[rows, width]"""
    largest: Any
    """[rows], so far."""
    totals: Any
    """[rows], so far."""
    factors: Any
    """[rows], of the sums so far."""

    @property
    def vectors(self) -> range:
        """Return where the vectors of the block's queries begin."""
        return range(0, self.sizes.rows, self.sizes.lanes)

    @property
    def is_single(self) -> bool:
        """Say whether all keys are done at once."""
        return self.sizes.keys >= self.form.keys


def begin_work(form: Attention, sizes: Sizes, buffers: tuple[list[Any], Any], part: tuple[Any, Any]) -> Work:
    """Write where a block begins; ``buffers``: the inputs and the output, flat; ``part``: head and first row.

    Where so many rows are not left it begins earlier.
    """
    rows = sizes.rows
    first = T.Bind(tirx.Min(part[1], int64(max(0, form.rows - rows))))
    kept = form.width * rows if sizes.keys < form.keys else 1
    return Work(
        **vars(find_places(form, *buffers, part[0])),
        form=form,
        sizes=sizes,
        first=first,
        queries=local(form.depth * rows),
        scores=local((2 * sizes.key_tile + sizes.keys) * rows),
        sums=local(kept),
        largest=local(rows),
        totals=local(rows),
        factors=local(rows),
    )
