"""The conversion of float32 weights and activations to a 16-bit type; inputs and outputs keep their ONNX types.

TVM's own ToMixedPrecision does not support bfloat16, turns integer products into float products, and adds up either
everything in float32 (which on a CPU is slower than the float32 model) or nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from ml_dtypes import bfloat16
from tvm import relax
from tvm.relax.expr_functor import mutator

from tvmbuild.base.attributes import Precision
from tvmbuild.compiler.importing.importer import ImportedModel
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.ir.modules import replace_main
from tvmbuild.compiler.ir.op_sets import BOUNDED, IN_16_BITS
from tvmbuild.compiler.ir.products import PRODUCTS, is_product, list_attributes
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.passes.exact_products import keep_exact
from tvmbuild.compiler.passes.fold_constants import decompose_and_fold
from tvmbuild.compiler.passes.kept_nodes import KeptNodes, leaves
from tvmbuild.compiler.schedules.cpu.halves import LONGEST_SUM
from tvmbuild.errors import TvmbuildError


@dataclass(frozen=True)
class _Type:
    """A 16-bit type: its name in TVM, its NumPy type, and its largest finite number."""

    name: str
    numpy: Any
    largest: float


_TYPES: dict[str, _Type] = {
    "fp16": _Type("float16", np.float16, 65504.0),
    "bf16": _Type("bfloat16", bfloat16, 3.3e38),
}


def reduce_precision(
    imported: ImportedModel, precision: Precision, kind: str, name: str | None = None
) -> ImportedModel:
    """Return the model with its products, and the operators between them, in the type of ``precision``.

    ``kind`` is the target's kind; ``name`` names the model in errors.
    `fp32` returns the model as it is. `tf32` lets tensor cores multiply the float32 products that are not kept.
    Nodes that the importer marked as kept stay in float32; in 16 bits, so do the operators after them up to the next
    product.
    `int8` returns a quantised model as it is, and raises TvmbuildError for a model without quantised operators.
    GPUs add up in float32. CPUs do so for sums of more than LONGEST_SUM products; a tile may split a longer sum into
    float16 sums of that many products (`cpu/halves.py`).
    """
    if precision == "int8":
        _require_quantised(imported, name or "the model")
    if precision in {"fp32", "int8"}:
        return imported
    if precision == "tf32":
        return replace(imported, mod=keep_exact(imported.mod), tf32=True)
    before = decompose_and_fold(imported.mod)
    converter = _Converter(before, _TYPES[precision], on_cpu=kind == "llvm")
    mod = replace_main(before, converter.visit_expr(before["main"]))
    if converter.has_marks:  # which were replaced by their operands
        mod = relax.transform.CanonicalizeBindings()(mod)
    notes = (*imported.notes, *_describe_left(converter.left, precision))
    return replace(imported, mod=relax.transform.DeadCodeElimination()(mod), notes=notes)


def _describe_left(left: Counter[str], precision: Precision) -> Iterator[str]:
    """Yield a note that counts the operators that stay in float32."""
    if left:
        listed = ", ".join(f"{times} {name}" for name, times in sorted(left.items()))
        yield f"operators that read numbers of {precision} and stay in float32: {listed}"


def sum_products_in_float32(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Make matrix products and convolutions of 16-bit floats, as in float16 ONNX files, add up in float32."""

    def widen(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        if not _is_narrow_product(call):
            return None
        attributes = list_attributes(call) | {"out_dtype": "float32"}
        return relax.op.astype(builder.emit(PRODUCTS[call.op.name](*call.args, **attributes)), str(call.ty.dtype))

    return rewrite_calls(mod, widen) if any(map(_is_narrow_product, operator_calls(mod, "relax."))) else mod


def _is_narrow_product(call: relax.Call) -> bool:
    """Return whether the call is a product or convolution that adds up in a 16-bit floating-point type."""
    return is_product(call) and str(call.ty.dtype) in {each.name for each in _TYPES.values()}


def _require_quantised(imported: ImportedModel, name: str) -> None:
    if not operator_calls(imported.mod, "relax.quantize"):
        raise TvmbuildError(
            f"{name} is not quantised, and its target has `precision: int8`",
            f"add `quantize:` to {name} in models.yaml, or leave the target out: `targets: {{exclude: [TARGET]}}`",
        )


@mutator
class _Converter(KeptNodes):
    """A mutator that computes bindings of ``main`` in 16 bits, and widens a 16-bit variable for readers of float32."""

    def __init__(self, mod: tvm.ir.IRModule, narrow: _Type, *, on_cpu: bool) -> None:
        super().__init__(mod)
        self._type = narrow
        self._on_cpu = on_cpu
        self._narrow: dict[relax.Var, relax.Expr] = {}
        """An old variable → its new value, for variables that have 16 bits now."""
        self._copies: dict[relax.Var, relax.Expr] = {}
        """An old variable that stays in float32 → its 16-bit copy. Float32 copies of 16-bit values are not shared."""
        self.left: Counter[str] = Counter()
        """The name of an operator that reads a 16-bit value and stays in float32 → its number of calls."""

    def convert_other(self, binding: relax.VarBinding) -> None:
        var = binding.var
        narrow = self._convert(binding.value) if self.builder_.current_block_is_dataflow() else None
        if narrow is None:
            self._note_left(binding.value)
            super().convert_other(binding)
            return
        self._narrow[var] = self.builder_.emit(narrow)
        if not isinstance(var, relax.DataflowVar):  # an output: its readers expect float32
            self.set_var_remap(var, self.builder_.emit_output(self._widen(self._narrow[var], var.ty)))

    def _note_left(self, value: relax.Expr) -> None:
        is_computed = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op) and _is_float32(value.ty)
        if is_computed and any(leaf in self._narrow for arg in value.args for leaf in leaves(arg)):
            name = value.args[0].name_hint if value.op.name == "relax.call_tir" else value.op.name
            self.left[name.removeprefix("relax.").removeprefix("nn.")] += 1

    def visit_dataflow_var_(self, var: relax.Var) -> relax.Expr:
        if var in self._narrow:
            return self.builder_.emit(self._widen(self._narrow[var], var.ty))
        return super().visit_dataflow_var_(var)

    def _convert(self, value: relax.Expr) -> relax.Expr | None:
        """Return the binding's value in 16 bits, or None if the value stays as it is."""
        if isinstance(value, relax.TupleGetItem):
            whole = self._narrow.get(value.tuple_value)
            return None if whole is None else relax.TupleGetItem(whole, value.index)
        if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op) or not _is_float32(value.ty):
            return None
        name = value.op.name
        if name in PRODUCTS and all(_is_float32(arg.ty) for arg in value.args):
            return self._convert_product(value)
        if name in IN_16_BITS and self._is_narrow(value):
            return relax.Call(value.op, [self._narrow_down(arg) for arg in value.args], value.attrs, value.ty_args)
        if name in BOUNDED and self._is_narrow(value):
            return self._compute_wide(value)
        return None

    def _convert_product(self, call: relax.Call) -> relax.Expr:
        make = PRODUCTS[call.op.name]
        data, weight = (self._narrow_down(arg) for arg in call.args)
        is_narrow = self._on_cpu and _sum_length(call) <= LONGEST_SUM
        attributes = list_attributes(call) | {"out_dtype": self._type.name if is_narrow else "float32"}
        product = make(data, weight, **attributes)
        return product if is_narrow else self._cast(product)

    def _compute_wide(self, call: relax.Call) -> relax.Expr:
        args = [self.visit_expr(arg) for arg in call.args]
        return self._cast(relax.Call(call.op, args, call.attrs, call.ty_args))

    def _cast(self, value: relax.Expr) -> relax.Expr:
        return relax.op.astype(self.builder_.emit(value), self._type.name)

    def _widen(self, value: relax.Expr, wanted: tvm.ir.Type) -> relax.Expr:
        if isinstance(wanted, relax.TupleType):
            fields = (self.builder_.emit(relax.TupleGetItem(value, index)) for index in range(len(wanted.fields)))
            return relax.Tuple([self.builder_.emit(relax.op.astype(field, "float32")) for field in fields])
        return relax.op.astype(value, "float32")

    def _is_narrow(self, call: relax.Call) -> bool:
        """Return whether the float operands have 16 bits or are constants that fit, and not all are constants."""
        operands = [leaf for arg in call.args for leaf in leaves(arg) if _is_float32(leaf.ty)]
        constants = [leaf for leaf in operands if isinstance(leaf, tvm.ir.GenericConst)]
        others = [leaf for leaf in operands if not isinstance(leaf, tvm.ir.GenericConst)]
        return bool(others) and all(leaf in self._narrow for leaf in others) and all(map(self._fits, constants))

    def _fits(self, constant: relax.Expr) -> bool:
        return bool((np.abs(constant.value.numpy()) <= self._type.largest).all())

    def _narrow_down(self, arg: relax.Expr) -> relax.Expr:
        if isinstance(arg, relax.Tuple):
            return relax.Tuple([self._narrow_down(field) for field in arg.fields])
        if not _is_float32(arg.ty):
            return self.visit_expr(arg)
        if isinstance(arg, tvm.ir.GenericConst):
            values = np.clip(arg.value.numpy(), -self._type.largest, self._type.largest)
            return relax.const(values.astype(self._type.numpy), self._type.name)
        if arg in self._narrow:
            return self._narrow[arg]
        if arg not in self._copies:
            self._copies[arg] = self.builder_.emit(relax.op.astype(self.visit_expr(arg), self._type.name))
        return self._copies[arg]


def _is_float32(type_: tvm.ir.Type) -> bool:
    """Return whether the type is a float32 tensor, or a tuple of float32 tensors."""
    if isinstance(type_, relax.TupleType):
        return bool(type_.fields) and all(_is_float32(field) for field in type_.fields)
    return isinstance(type_, relax.TensorType) and str(type_.dtype) == "float32"


def _sum_length(call: relax.Call) -> int:
    """Return the number of products in the sum of one result element; an upper bound for transposed convolutions."""
    data, weight = ([int(size) for size in arg.ty.shape] for arg in call.args)
    if call.op.name == "relax.matmul":
        return data[-1]
    if call.op.name.endswith("_transpose"):
        return weight[0] // int(call.attrs["groups"]) * math.prod(weight[2:])
    return math.prod(weight[1:])
