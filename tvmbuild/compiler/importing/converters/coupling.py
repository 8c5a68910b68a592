"""Class probabilities from pairwise probabilities, by the iteration of libsvm; each row is computed by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import OPAQUE

_MAX_ROUNDS = 100
_ERROR = 0.005
"""The error below which libsvm stops the iteration, times the number of classes."""


def convert_coupling(call: NodeCall) -> relax.Expr:
    """Return the probability of each class from the probabilities that one class wins against another.

    The input has the shape [rows, classes²], the result [rows, classes].
    """
    rows, width = call.shape
    classes = round(width**0.5)
    function = call.builder.add_func(_write(rows, classes), "pairwise_coupling")
    return relax.call_tir(function, [call.data], relax.TensorType((rows, classes), "float32"))


@dataclass(frozen=True)
class _Work:
    """The arrays of the iteration for one output element."""

    classes: int
    products: Any
    """The matrix Q of Wu, Lin and Weng, "Probability estimates for multi-class classification", row by row."""
    found: Any
    """The probabilities of the classes."""
    gradient: Any
    """The product of the matrix Q and the probabilities, one number for each class."""
    mean: Any
    """The dot product of the probabilities and the gradient."""
    error: Any
    change: Any
    rounds: Any


def _write(rows: int, classes: int) -> tirx.PrimFunc:
    """Return the TensorIR function, which repeats the iteration of a row for each element of the row."""
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("pairwise_coupling")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        pairs = T.arg("pairs", T.buffer((rows, classes * classes), "float32", layout=None))
        result = T.arg("result", T.buffer((rows, classes), "float32", layout=None))
        with T.grid(rows, classes) as (i, j), T.sblock("pairwise_coupling"):
            row, column = T.axis.spatial(rows, i), T.axis.spatial(classes, j)
            T.reads(pairs[row, 0 : classes * classes])
            T.writes(result[row, column])
            sizes = (classes * classes, classes, classes, 1, 1, 1)
            products, found, gradient, mean, error, change = (
                T.sblock_alloc_buffer((size,), "float32", scope="local", layout=None) for size in sizes
            )
            rounds = T.sblock_alloc_buffer((1,), "int32", scope="local", layout=None)
            work = _Work(classes, products, found, gradient, mean, error, change, rounds)
            _begin(work, pairs, row)
            with T.While(work.rounds[0] < _MAX_ROUNDS):
                _measure(work)
                with T.If(work.error[0] < _ERROR / classes):
                    with T.Then():
                        T.buffer_store(work.rounds, _MAX_ROUNDS, [0])
                    with T.Else():
                        _improve(work)
                        T.buffer_store(work.rounds, work.rounds[0] + 1, [0])
            T.buffer_store(result, work.found[column], [row, column])
    return builder.get()


def _begin(work: _Work, pairs: Any, row: Any) -> None:
    count = work.classes
    T.buffer_store(work.rounds, 0, [0])
    with T.serial(count) as i:
        T.buffer_store(work.found, tirx.const(1 / count, "float32"), [i])
        T.buffer_store(work.products, tirx.const(0, "float32"), [i * count + i])
        with T.serial(count) as j, T.If(i != j), T.Then():
            lost = pairs[row, j * count + i]
            T.buffer_store(work.products, work.products[i * count + i] + lost * lost, [i * count + i])
            T.buffer_store(work.products, -lost * pairs[row, i * count + j], [i * count + j])


def _measure(work: _Work) -> None:
    count = work.classes
    T.buffer_store(work.mean, tirx.const(0, "float32"), [0])
    T.buffer_store(work.error, tirx.const(0, "float32"), [0])
    with T.serial(count) as i:
        T.buffer_store(work.gradient, tirx.const(0, "float32"), [i])
        with T.serial(count) as j:
            T.buffer_store(work.gradient, work.gradient[i] + work.products[i * count + j] * work.found[j], [i])
        T.buffer_store(work.mean, work.mean[0] + work.found[i] * work.gradient[i], [0])
    with T.serial(count) as i:
        T.buffer_store(work.error, tirx.max(work.error[0], tirx.abs(work.gradient[i] - work.mean[0])), [0])


def _improve(work: _Work) -> None:
    """Move each class's probability to the point where its gradient is the mean, and scale the sum back to one."""
    count = work.classes
    with T.serial(count) as i:
        own = work.products[i * count + i]
        T.buffer_store(work.change, (work.mean[0] - work.gradient[i]) / own, [0])
        change = work.change[0]
        T.buffer_store(work.found, work.found[i] + change, [i])
        grown = work.mean[0] + change * (change * own + 2.0 * work.gradient[i])
        T.buffer_store(work.mean, grown / (1.0 + change) / (1.0 + change), [0])
        with T.serial(count) as j:
            moved = work.gradient[j] + change * work.products[i * count + j]
            T.buffer_store(work.gradient, moved / (1.0 + change), [j])
            T.buffer_store(work.found, work.found[j] / (1.0 + change), [j])
