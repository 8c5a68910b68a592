"""The kernel that decodes a text greedily, as networks trained with CTC need it.

It drops symbols that repeat the step before, then blanks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import one_block, where
from tvmbuild.compiler.kernels.vectors import local

COLUMNS = 2
"""The columns of a symbol: the symbol and its probability."""


@dataclass(frozen=True)
class TextSteps:
    """The symbols of the steps of a text."""

    steps: int
    blank: int
    """The symbol that stands for no character."""


def write_text(form: TextSteps, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from probabilities [steps] and symbols [steps] to the text [1 + steps, 2].

    The first row begins with the number of characters; a row has the symbol and the probability of a character. Rows
    after the last character are zeros. One thread writes the text, because each step depends on the one before.
    """
    steps = form.steps
    inputs = [((steps,), "float32"), ((steps,), "int32")]
    with begin_kernel("text", inputs, [((1 + steps, COLUMNS), "float32")]) as (builder, buffers):
        if on_gpu:
            with one_block() as thread, where(thread == int64(0), always=False):
                _write(form, *buffers)
        else:
            _write(form, *buffers)
    return mark_scheduled(builder.get())


def _write(form: TextSteps, scores: tirx.Buffer, symbols: tirx.Buffer, rows: tirx.Buffer) -> None:
    last, found = local(1, "int32"), local(1, "int32")
    T.buffer_store(last, int32(form.blank), [0])
    T.buffer_store(found, int32(0), [0])
    with T.serial(int64((1 + form.steps) * COLUMNS)) as place:
        T.buffer_store(rows, float32(0), [place])
    with T.serial(int64(form.steps)) as step:
        symbol = T.Bind(symbols[step])
        with T.If(tirx.all(symbol != int32(form.blank), symbol != last[0])), T.Then():
            T.buffer_store(found, found[0] + int32(1), [0])
            begin = T.Bind(found[0].astype("int64") * COLUMNS)
            T.buffer_store(rows, symbol.astype("float32"), [begin])
            T.buffer_store(rows, scores[step], [begin + 1])
        T.buffer_store(last, symbol, [0])
    T.buffer_store(rows, found[0].astype("float32"), [0])
