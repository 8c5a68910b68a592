"""The argument of a converter: one ONNX node with its inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.errors import TvmbuildError


@dataclass(frozen=True)
class NodeCall:
    """One node of the ONNX graph that is being converted to Relax."""

    operator: str
    inputs: list[Any]
    """The input expressions, with None for an input that is left out; an index past the end also gives None."""
    attributes: dict[str, Any]
    """The attributes in the form of TVM's importer, with strings as bytes; ``by_tvm`` uses the attributes, too."""
    opset: int
    outputs: int
    builder: relax.BlockBuilder
    by_tvm: Callable[[], relax.Expr]
    """The function that converts the node with TVM's converter."""

    @property
    def data(self) -> relax.Expr:
        """The first input."""
        return self.inputs[0]

    @property
    def dtype(self) -> str:
        """The first input's element type."""
        return str(self.data.ty.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The first input's shape; raises TvmbuildError if it is unknown."""
        shape = static_shape(self.data)
        if shape is None:
            raise TvmbuildError(f"the shape of its first input is not known: {self.data.ty}")
        return shape

    def emit(self, operator: Callable[..., relax.Expr], *arguments: Any, **attributes: Any) -> relax.Expr:
        """Emit a call of the operator, and return the variable that its result is bound to."""
        return self.builder.emit(operator(*arguments, **attributes))

    def number(self, value: float, dtype: str | None = None) -> relax.Expr:
        """Return a scalar constant of type ``dtype``, by default of the first input's element type."""
        return relax.const(np.array(value), dtype or self.dtype)

    def float(self, name: str, default: float) -> float:
        """Return a numeric attribute or its default, rounded to float32, which is the attribute's type in ONNX."""
        return float(np.float32(self.attributes.get(name, default)))

    @property
    def keeps_dimensions(self) -> bool:
        """Return whether a reduction keeps the reduced axes, with length one."""
        return bool(self.attributes.get("keepdims", 1))

    def text(self, name: str, default: str) -> str:
        """Return a string attribute, or the default if the node does not have the attribute."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def values(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the values of an input that is a constant or a known shape, or None for other inputs."""
        expr = self.inputs[index]
        if isinstance(expr, tvm.ir.GenericConst):
            array: np.ndarray[Any, Any] = expr.value.numpy()
            return array
        if isinstance(expr, relax.ShapeExpr) and all(isinstance(each, tvm.tirx.IntImm) for each in expr.values):
            return np.array([int(each) for each in expr.values], dtype=np.int64)
        return None


Converter: TypeAlias = Callable[[NodeCall], relax.Expr]
