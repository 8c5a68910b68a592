"""What schedules leave to be done before code is made of them: no primitive of TVM's can say it."""

from __future__ import annotations

import tvm

from tvmbuild.compiler.schedules.cpu.halves import add_up_halves
from tvmbuild.compiler.schedules.cpu.nearest import round_to_integers
from tvmbuild.compiler.schedules.cpu.overlap import overlap_tiles
from tvmbuild.compiler.schedules.cpu.partition import narrow_partitioned
from tvmbuild.compiler.schedules.cpu.phases import trim_windows
from tvmbuild.compiler.schedules.cpu.prefetch import prefetch_panels
from tvmbuild.compiler.schedules.cpu.rows.rule import expand_rows
from tvmbuild.compiler.target import is_gpu


def finish(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Return the scheduled module with whole tiles, loops of rows, and indices that can be taken apart.

    A GPU's stays as it is. Packages, the tuner's candidates and checks of records all go through here.
    """
    if is_gpu(target):
        return mod
    tiled = expand_rows(overlap_tiles(mod), target)
    return trim_windows(add_up_halves(prefetch_panels(round_to_integers(narrow_partitioned(tiled), target))))
