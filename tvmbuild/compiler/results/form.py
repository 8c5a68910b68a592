"""The interface of a kind of result: it checks the outputs that it reads, and writes the calls of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from tvm import relax, tirx

from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.kernels.buffers import Form
from tvmbuild.compiler.kernels.results.canvas import Canvas


class KernelCalls:
    """The calls of kernels in the function that a builder is building."""

    def __init__(self, builder: relax.BlockBuilder, *, on_gpu: bool) -> None:
        self._builder, self.on_gpu = builder, on_gpu

    def add(
        self, name: str, function: tirx.PrimFunc, arguments: Sequence[relax.Expr | np.ndarray], outputs: Sequence[Form]
    ) -> list[relax.Expr]:
        """Call a kernel, and return its outputs. Arrays among its arguments become constants."""
        variable = self._builder.add_func(function, name)
        given = [constant(each) if isinstance(each, np.ndarray) else each for each in arguments]
        types = [relax.TensorType(*each) for each in outputs]
        called = self._builder.emit(relax.call_tir(variable, given, types if len(types) > 1 else types[0]))
        if len(types) == 1:
            return [called]
        return [self._builder.emit(relax.TupleGetItem(called, place)) for place in range(len(types))]


@dataclass(frozen=True)
class Request:
    """The values from which a result is made."""

    outputs: Sequence[relax.Expr]
    """The outputs that the result reads."""
    thresholds: relax.Expr
    """The thresholds of scores and of overlaps, float32 [2]."""
    geometry: relax.Expr
    """The numbers that map a point of the input to the frame (`package.frames.find_geometry`)."""
    canvas: Canvas
    """The pixels of a result that is a map: those of the frame, or of the network's input."""


class ResultForm(Protocol):
    """A kind of result for certain outputs."""

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the outputs that it reads."""

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name. None if the outputs do not tell it."""

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Write the calls of its kernels, and return the arrays of the result."""
