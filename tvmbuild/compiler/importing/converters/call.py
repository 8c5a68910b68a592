"""The node call that a converter gets."""

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
    """One node of the ONNX graph that is being converted."""

    operator: str
    inputs: list[Any]
    """The expressions, None for an input that is left out; an index past the end also gives None."""
    attributes: dict[str, Any]
    """The attributes in the form of TVM's importer, with texts as bytes; ``by_tvm`` sees changes of them."""
    opset: int
    outputs: int
    builder: relax.BlockBuilder
    by_tvm: Callable[[], relax.Expr]
    """TVM's own conversion of the node."""

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
        """The first input's shape; TvmbuildError is raised if it is unknown."""
        shape = static_shape(self.data)
        if shape is None:
            raise TvmbuildError(f"the shape of its first input is not known: {self.data.ty}")
        return shape

    def emit(self, operator: Callable[..., relax.Expr], *arguments: Any, **attributes: Any) -> relax.Expr:
        """Bind the operator's result to a variable."""
        return self.builder.emit(operator(*arguments, **attributes))

    def number(self, value: float, dtype: str | None = None) -> relax.Expr:
        """Return a scalar of the first input's element type."""
        return relax.const(np.array(value), dtype or self.dtype)

    def float(self, name: str, default: float) -> float:
        """Return a numeric attribute rounded to float32, ONNX's type for it; the default is rounded, too."""
        return float(np.float32(self.attributes.get(name, default)))

    @property
    def keeps_dimensions(self) -> bool:
        """Whether a reduction keeps dimensions of one."""
        return bool(self.attributes.get("keepdims", 1))

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def values(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the array of a constant input, or of a known shape; None for all other inputs."""
        expr = self.inputs[index]
        if isinstance(expr, tvm.ir.GenericConst):
            array: np.ndarray[Any, Any] = expr.value.numpy()
            return array
        if isinstance(expr, relax.ShapeExpr) and all(isinstance(each, tvm.tirx.IntImm) for each in expr.values):
            return np.array([int(each) for each in expr.values], dtype=np.int64)
        return None


Converter: TypeAlias = Callable[[NodeCall], relax.Expr]
