"""The common base for schedules of matrix products: each block of threads computes a tile of the output."""

from __future__ import annotations

from typing import Any, Protocol

from tvmbuild.compiler.schedules.gpu.matrices import MatrixProduct


class Tile(Protocol):
    """The rows and columns of the output that a block computes, and the depth that it has in shared memory at once."""

    @property
    def height(self) -> int: ...  # noqa: D102 - the class says it
    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def step(self) -> int: ...  # noqa: D102


class TiledProduct:
    """A schedule under construction; if ``binds`` is False, its threads are loops, which a CPU can run."""

    operand_scope = "shared"
    """The scope of the operands' copies; `shared.dyn` is the memory whose size a launch states."""

    def __init__(self, product: MatrixProduct, tile: Tile, binds: bool) -> None:
        self.product, self.binds = product, binds
        self.sch = product.sch.copy()
        self._wanted = (tile.height, tile.width, tile.step)

    def bind(self, loop: Any, axis: str) -> None:
        """Bind the loop to an axis of threads or of blocks, if the schedule ``binds`` loops."""
        if self.binds:
            self.sch.bind(loop, axis)

    def fill_up(self, scope: str) -> tuple[Any, Any]:
        """Pad the sum to whole tiles; return the block of the sum and the block that writes the output.

        If the sum itself writes the output, it now writes to memory of ``scope``, which another block copies to the
        output.
        """
        sch, sizes, block, last = self.sch, self.product.sizes, self.product.block, self.product.last
        given = (sizes.rows, sizes.columns, sizes.depth)
        rows, columns, depth = (extent % size for extent, size in zip(given, self._wanted, strict=True))
        if rows or columns or depth:
            sch.pad_einsum(block, [*(1 for _ in range(self.product.outer)), *self._wanted])
        if rows or columns:
            (crop,) = sch.get_consumers(block)
            if last is None:
                last = crop
            else:
                sch.compute_inline(crop)
        return block, sch.cache_write(block, 0, scope) if last is None else last

    def place_blocks(self, last: Any) -> tuple[Any, Any]:
        """Give each block of threads its tile of the output; return the innermost loop of blocks and a tile's loop."""
        sch, (height, width, _) = self.sch, self._wanted
        *outer, row, column = sch.get_loops(last)
        block_row, row = sch.split(row, [None, height])
        block_column, column = sch.split(column, [None, width])
        sch.reorder(*outer, block_row, block_column, row, column)
        if outer:
            self.bind(sch.fuse(*outer) if len(outer) > 1 else outer[0], "blockIdx.z")
        self.bind(block_row, "blockIdx.y")
        self.bind(block_column, "blockIdx.x")
        return block_column, sch.fuse(row, column)

    def copy_operand(self, block: Any, which: int) -> Any:
        """Return the block that writes an operand to shared memory: the block that pads the operand, or a new copy."""
        sch, operand = self.sch, self.product.operands[which]
        buffer = sch.get(block).reads[operand].source
        makers = [each for each in sch.get_producers(block) if sch.get(each).writes[0].source.same_as(buffer)]
        if not makers:
            return sch.cache_read(block, operand, self.operand_scope)
        for copy in sch.get_producers(makers[0]):
            sch.compute_inline(copy)
        sch.set_scope(makers[0], 0, self.operand_scope)
        return makers[0]

    def own_loops(self, block: Any) -> list[Any]:
        """Return the innermost loops of a block that copies, one for each of its dimensions."""
        return list(self.sch.get_loops(block)[-len(self.sch.get(block).iter_vars) :])
