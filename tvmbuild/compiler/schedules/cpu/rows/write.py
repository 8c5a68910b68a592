"""The loops of a function that goes row by row.

Vectors have a length that is a power of two. What they leave of a row is done by one more that ends where the row
ends: elements that were computed are computed again, and add nothing to a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.schedules.cpu.rows.across import Across
from tvmbuild.compiler.schedules.cpu.rows.along import Along
from tvmbuild.compiler.schedules.cpu.rows.invariants import compute_once
from tvmbuild.compiler.schedules.cpu.rows.view import Rows


def write_rows(rows: Rows, parameters: Sequence[Any], machine: Machine) -> Any:
    """Return the function's loops as a statement; ``parameters`` are the buffers that are not its own."""
    whole = compute_once(rows)
    writer = Across(whole, parameters, machine) if rows.across else Along(whole, parameters, machine)
    return writer.write()
