"""What the scores of a block become: weights, their sums, and factors for what was summed up before."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.codegen.fast_math import exp_of_negative
from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.work import Work
from tvmbuild.compiler.kernels.vectors import load, local, number, store


def begin_softmax(work: Work) -> None:
    """Write the maximum and the sum of nothing."""
    lanes = work.sizes.lanes
    for vector in work.vectors:
        store(work.largest, number(-math.inf, lanes), vector, lanes)
        store(work.totals, number(0, lanes), vector, lanes)
        if not work.is_single:
            store(work.factors, number(-math.inf, lanes), vector, lanes)
            with T.serial(int64(work.form.width)) as column:
                store(work.sums, number(0, lanes), column * work.sizes.rows + vector, lanes)


def write_weights(work: Work, count: Any) -> None:
    """Write exp(score - maximum) in the place of ``count`` keys' scores, and add it up.

    ``factors`` has the maximum of before, and gets what that makes of the sums of before.
    """
    sizes, lanes = work.sizes, work.sizes.lanes
    rows = sizes.rows
    for vector in work.vectors:
        largest = load(work.largest, vector, lanes)
        # Of a row without any key: minus infinity less itself would be no number.
        largest = T.Bind(tirx.Select(largest == number(-math.inf, lanes), number(0, lanes), largest))
        total = local(lanes)
        before = number(0, lanes)
        if not work.is_single:
            factor = T.Bind(exp_of_negative(load(work.factors, vector, lanes) - largest))
            store(work.factors, factor, vector, lanes)
            before = load(work.totals, vector, lanes) * factor
        store(total, before, 0, lanes)
        with T.serial(count) as key:
            at = (key + sizes.key_tile) * rows + vector
            weight = T.Bind(exp_of_negative(load(work.scores, at, lanes) - largest))
            store(work.scores, weight, at, lanes)
            store(total, load(total, 0, lanes) + weight, 0, lanes)
        store(work.totals, load(total, 0, lanes), vector, lanes)
