"""Attention as exporters spell it, drawn by hypothesis: a form gives the spelling of each part, and makes a model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from spelled_masks import MASKS, Masks
from spelled_operands import SOURCES, Operands

LENGTHS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 37, 53, 64, 67, 70)
SIZES = (1, 3, 8, 16, 20, 32, 40, 64, 72, 80)
OPSETS = (11, 12, 13, 14, 16, 17, 18, 20, 21, 23)
SCALES = ("none", "query", "keys", "both", "scores", "divided", "after the mask")
SOFTMAXES = ("operator", "written out", "other axis", "guarded")
PRODUCTS = ("MatMul", "MatMul", "batched", "Einsum")
"""The spellings of a product; batched: batch and heads as one axis, as for PyTorch's `bmm`."""
SEEN = ("nothing", "nothing", "nothing", "scores", "weights", "scaled")
"""The inner values that are outputs too."""
OPERATORS = ("written", "written", "written", "ONNX", "com.microsoft")
"""The operators: written out in products, or a single one."""


@dataclass(frozen=True)
class Form:
    """The spelling of a model of attention."""

    seed: int
    opset: int
    batch: int
    groups: int
    """The number of heads of keys and values."""
    each: int
    """The number of query heads for each key head."""
    tokens: int
    keys: int
    size: int
    value_size: int
    source: str
    mask: str
    scale: str
    softmax: str
    product: str
    seen: str
    cap: bool
    projected: bool
    """True if the result is multiplied by weights."""
    operator: str

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return self.groups * self.each


class Model(Masks, Operands):
    """A growing model."""

    form: Form

    def make(self) -> onnx.ModelProto:
        """Return the model."""
        form = self.form
        query, keys, values = self.make_operands()
        self.output("y", self.finish(self.operator(query, keys, values)))
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in self.data.items()
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs],
            [numpy_helper.from_array(values, name) for name, values in self.constants.items()],
        )
        imports = [helper.make_opsetid("", form.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if form.opset < 21 else 11)

    def operator(self, query: str, keys: str, values: str) -> str:
        """Return the result of attention, [batch, heads, tokens, size], for operands of that form."""
        form = self.form
        if form.operator == "ONNX":
            return self._in_onnx(query, keys, values)
        if form.operator == "com.microsoft":
            return self._in_microsoft(query, keys, values)
        return self._written_out(query, keys, values)

    def _in_onnx(self, query: str, keys: str, values: str) -> str:
        attributes: dict[str, Any] = {"scale": 0.25} if self.form.scale == "query" else {}
        if self.form.cap:
            attributes["softcap"] = 3.0
        inputs = [query, keys, values]
        if self.form.mask == "causal":
            attributes["is_causal"] = 1
        elif self.form.mask in ("bias", "padding"):
            inputs.append(self.make_bias() if self.form.mask == "bias" else self.make_seen())
        return self.add("Attention", *inputs, **attributes)

    def _in_microsoft(self, query: str, keys: str, values: str) -> str:
        form = self.form
        flat = [self.join(each) for each in (query, self.repeat(keys), self.repeat(values))]
        inputs = [*flat, "", ""]
        if form.mask == "padding":
            seen = self.add("Reshape", self.make_seen(), self.integers(form.batch, form.keys))
            inputs[4] = self.add("Cast", seen, to=TensorProto.INT32)
        elif form.mask == "bias":
            inputs.append(self.make_bias())
        joined = self.add("MultiHeadAttention", *inputs, domain="com.microsoft", num_heads=form.heads)
        return self.part(joined, form.tokens, form.heads, form.value_size)

    def _written_out(self, query: str, keys: str, values: str) -> str:
        form, factor = self.form, self.form.size**-0.5
        keys, values = self.repeat(keys), self.repeat(values)
        if form.scale in ("query", "both"):
            query = self.add("Mul", query, self.number(factor if form.scale == "query" else factor**0.5))
        if form.scale in ("keys", "both"):
            keys = self.add("Mul", keys, self.number(factor if form.scale == "keys" else factor**0.5))
        scores = self.multiply(query, keys, turned=True)
        self.show("scores", scores)
        if form.scale in ("scores", "divided"):
            kind, number = ("Mul", factor) if form.scale == "scores" else ("Div", 1 / factor)
            scores = self.add(kind, scores, self.number(number))
        if form.cap:
            scores = self.add("Mul", self.add("Tanh", self.add("Div", scores, self.number(3.0))), self.number(3.0))
        scores = self.mask(scores)
        if form.scale == "after the mask" and form.mask in ("none", "bias", "many biases"):
            scores = self.add("Mul", scores, self.number(factor))
        self.show("scaled", scores)
        weights = self.soften(scores)
        self.show("weights", weights)
        return self.multiply(weights, values, turned=False)

    def multiply(self, left: str, right: str, turned: bool) -> str:
        """Return the product over the last axis of the left and the last (turned) or last but one of the right."""
        if self.form.product == "Einsum" and self.form.opset > 11:
            return self.add("Einsum", left, right, equation="bhqd,bhkd->bhqk" if turned else "bhqk,bhkd->bhqd")
        if self.form.product != "batched":
            return self.add("MatMul", left, self.add("Transpose", right, perm=[0, 1, 3, 2]) if turned else right)
        form = self.form
        sizes = (form.size, form.size) if turned else (form.keys, form.value_size)
        left, right = (
            self.add("Reshape", each, self.integers(form.batch * form.heads, -1, size))
            for each, size in zip((left, right), sizes, strict=True)
        )
        product = self.add("MatMul", left, self.add("Transpose", right, perm=[0, 2, 1]) if turned else right)
        return self.add("Reshape", product, self.integers(form.batch, form.heads, form.tokens, -1))

    def soften(self, scores: str) -> str:
        """Return the softmax of the last axis."""
        way = self.form.softmax
        if way == "written out":
            powers = self.add("Exp", self.add("Sub", scores, self.reduce("ReduceMax", scores)))
            return self.add("Div", powers, self.reduce("ReduceSum", powers))
        if way == "other axis" and self.form.opset > 12:
            turned = self.add("Softmax", self.add("Transpose", scores, perm=[0, 1, 3, 2]), axis=-2)
            return self.add("Transpose", turned, perm=[0, 1, 3, 2])
        weights = self.add("Softmax", scores, axis=3 if way == "other axis" else -1)
        if way == "guarded":
            weights = self.add("Where", self.add("IsNaN", weights), self.number(0.0), weights)
        return weights

    def finish(self, mixed: str) -> str:
        """Return the heads side by side, perhaps projected."""
        if not self.form.projected:
            return mixed
        width = self.form.heads * self.form.value_size
        return self.add("Add", self.add("MatMul", self.join(mixed), self.weight(width, 24)), self.weight(24))

    def show(self, what: str, value: str) -> None:
        """Make the value an output if the form includes it."""
        if self.form.seen == what:
            self.output(what, value)


def make_model(form: Form) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the form's model and inputs for it."""
    model = Model(form)
    return model.make(), model.data


def fit(form: Form) -> Form:
    """Return the nearest possible form, without choices that exclude each other."""
    if form.operator == "ONNX":
        form = replace(
            form,
            opset=23 + form.seed % 2,
            seen="nothing",
            value_size=form.size if form.source != "inputs" else form.value_size,
        )
    if form.operator == "com.microsoft":
        form = replace(form, seen="nothing", cap=False)
    alone = form.source in ("self", "fused", "interleaved", "channels", "flat", "rotated")
    if alone or (form.source == "cache" and form.keys < form.tokens):
        form = replace(form, keys=form.tokens)
    if form.source in ("fused", "interleaved", "channels"):
        form = replace(form, each=1, value_size=form.size)
    if form.mask.startswith("causal") and form.keys < form.tokens:
        form = replace(form, keys=form.tokens)
    return form


_CHOICES = {
    "seed": st.integers(0, 99),
    "opset": st.sampled_from(OPSETS),
    "batch": st.sampled_from([1, 1, 2, 3]),
    "groups": st.sampled_from([1, 2, 3]),
    "each": st.sampled_from([1, 1, 2, 3]),
    "tokens": st.sampled_from(LENGTHS),
    "keys": st.sampled_from(LENGTHS),
    "size": st.sampled_from(SIZES),
    "value_size": st.sampled_from(SIZES),
    "source": st.sampled_from(SOURCES),
    "mask": st.sampled_from(MASKS),
    "scale": st.sampled_from(SCALES),
    "softmax": st.sampled_from(SOFTMAXES),
    "product": st.sampled_from(PRODUCTS),
    "seen": st.sampled_from(SEEN),
    "cap": st.sampled_from([False, False, False, True]),
    "projected": st.booleans(),
    "operator": st.sampled_from(OPERATORS),
}
assert list(_CHOICES) == [field.name for field in fields(Form)]
FORMS: st.SearchStrategy[Form] = st.builds(Form, **_CHOICES).map(fit)
