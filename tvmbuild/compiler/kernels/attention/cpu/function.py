"""The function: blocks of queries on all threads, each past all keys, with the running maximum and sum."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.outputs import write_outputs, write_weighted
from tvmbuild.compiler.kernels.attention.cpu.queries import pack_queries
from tvmbuild.compiler.kernels.attention.cpu.scores import write_scores
from tvmbuild.compiler.kernels.attention.cpu.sizes import choose_last, choose_sizes
from tvmbuild.compiler.kernels.attention.cpu.softmax import begin_softmax, write_weights
from tvmbuild.compiler.kernels.attention.cpu.visible import visible_keys
from tvmbuild.compiler.kernels.attention.cpu.work import Work, begin_work
from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.kernels.attention.signature import begin_function
from tvmbuild.compiler.machine.machine import PARALLEL_WORK, Machine


def write_attention(form: Attention, machine: Machine) -> tirx.PrimFunc:
    """Return the function; see :class:`Attention` for its arguments."""
    sizes = choose_sizes(form, machine)
    blocks = sizes.count_blocks(form.rows)
    parts = math.prod(form.heads) * blocks
    chunks = parts if form.operations >= PARALLEL_WORK and machine.threads > 1 else 1
    with (
        begin_function(form) as (builder, inputs, out),
        T.parallel(int64(chunks)) as chunk,
        T.serial(int64(parts // chunks)) as step,
    ):
        part = chunk * (parts // chunks) + step
        head, block = part // blocks, part % blocks
        last = choose_last(form, machine, sizes)
        if last is None:
            _write_block(begin_work(form, sizes, (inputs, out), (head, block * sizes.rows)))
        else:
            with T.If(block < int64(blocks - 1)):
                with T.Then():
                    _write_block(begin_work(form, sizes, (inputs, out), (head, block * sizes.rows)))
                with T.Else():
                    _write_block(begin_work(form, last, (inputs, out), (head, int64(form.rows))))
    return builder.get()


def _write_block(work: Work) -> None:
    sizes = work.sizes
    pack_queries(work)
    begin_softmax(work)
    begin, end = (T.Bind(each) for each in visible_keys(work))
    if work.is_single:
        _write_keys(work, begin, end - begin)
    else:
        with T.serial((end - begin + (sizes.keys - 1)) // sizes.keys) as block:
            first = T.Bind(begin + block * sizes.keys)
            _write_keys(work, first, T.Bind(tirx.Min(int64(sizes.keys), end - first)))
    write_outputs(work)


def _write_keys(work: Work, first: Any, count: Any) -> None:
    write_scores(work, first, count)
    write_weights(work, count)
    write_weighted(work, first, count)
