"""The masks and biases that drawn attention adds to its scores, or puts in their place."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from spelled_operands import Operands

MASKS = (
    "none",
    "none",
    "causal",
    "causal added",
    "causal infinite",
    "padding",
    "padding added",
    "padding of numbers",
    "padding given",
    "place",
    "bias",
    "many biases",
)
LOWEST = float(np.finfo(np.float32).min)


class Masks(Operands):
    """The ways to write a mask of scores [batch, heads, tokens, keys]."""

    def mask(self, scores: str) -> str:
        """Return the scores after the form's mask; every token sees at least one key."""
        kind = self.form.mask
        if kind in ("causal", "padding"):
            seen = self.constant(~self._ahead[None, None], "bool") if kind == "causal" else self.make_seen()
            return self.add("Where", seen, scores, self.number(-1e9))
        for _ in range({"none": 0, "many biases": 2}.get(kind, 1)):
            scores = self.add("Add", scores, self._make_added(kind))
        return scores

    def _make_added(self, kind: str) -> str:
        form = self.form
        if kind in ("causal added", "causal infinite"):
            return self.constant(np.where(self._ahead, LOWEST if kind == "causal added" else -np.inf, 0.0))
        if kind == "padding added":
            return self._added(self.make_seen())
        if kind == "padding of numbers":
            seen = self.add("Cast", self.make_seen(), to=TensorProto.FLOAT)
            return self.add("Mul", self.add("Sub", self.number(1.0), seen), self.number(-10000.0))
        if kind == "padding given":
            self.data["added"] = np.where(self._visible(), 0.0, LOWEST).astype(np.float32)
        if kind == "place":
            self.data["place"] = np.array([self.random.integers(form.keys)], np.int64)
            behind = self.add("Greater", self.constant(np.arange(form.keys), "int64"), "place")
            return self._added(self.add("Not", behind))
        return "added" if kind == "padding given" else self.make_bias()

    @property
    def _ahead(self) -> np.ndarray:
        form = self.form
        return np.asarray(np.arange(form.keys) > np.arange(form.tokens)[:, None] + form.keys - form.tokens)

    def make_seen(self) -> str:
        """Return the visible keys, an input of booleans [batch, 1, 1 or tokens, keys]."""
        self.data["seen"] = self._visible()
        return "seen"

    def make_bias(self) -> str:
        """Return numbers that broadcast over [batch, heads, tokens, keys], computed, given or constant."""
        form = self.form
        shapes = [(form.heads, form.tokens, form.keys), (1, 1, form.heads, form.tokens, form.keys)[1:]]
        shape = shapes[int(self.random.integers(2))]
        if form.operator != "written":
            shape = shapes[1]
        way = self.random.integers(3)
        if way == 0:
            return self.constant(self.random.normal(0, 1, shape))
        name = f"bias{len(self.data)}"
        if way == 1:
            return self.input(name, *shape)
        table = self.constant(self.random.normal(0, 1, (11, form.heads)))
        places = self.constant(self.random.integers(0, 11, (form.tokens, form.keys)), "int64")
        taken = self.add("Transpose", self.add("Gather", table, places), perm=[2, 0, 1])
        return self.unsqueeze(taken, 0)

    def _visible(self) -> np.ndarray:
        form = self.form
        one_row = form.operator == "com.microsoft" or (form.operator == "written" and self.random.integers(2))
        rows = 1 if one_row else form.tokens
        seen = self.random.integers(0, 3, (form.batch, 1, rows, form.keys)) > 0
        seen[..., 0] = True
        return seen

    def _added(self, seen: str) -> str:
        return self.add("Where", seen, self.number(0.0), self.number(LOWEST))
