"""The description of a recurrent network (LSTM, GRU, RNN): its sizes, and the order of its packed operands."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["LSTM", "GRU", "RNN"]
GATES: dict[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
FORM = "tvmbuild_recurrence"
"""The attribute of an importer's kernel that a pass writes again: its form.

LowerRecurrences does so for a dot instruction, BlockRecurrences for a GPU.
"""
LANES = 16
"""The vector length of the kernel: LLVM splits the vectors into the CPU's registers."""
LARGEST_BLOCK = 5 << 15
"""The largest number of weights for one block of a GPU to read in each step. On an H200 a block reads 110 GB/s: an LSTM
of 192 units takes 0.63 of the time of kernels for each step, one of 256 units 1.04."""
_PANEL: dict[Kind, int] = {"LSTM": 16, "GRU": 16, "RNN": 64}
"""The number of hidden units in a register tile: enough sums to hide the latency of a multiply-add."""


@dataclass(frozen=True)
class Recurrence:
    """The sizes of a recurrence and of its kernel.

    The kernel's inputs are ``projected`` [steps, batch, directions * width] and the weights, both as the methods here
    pack them, a bias [directions, padded] for the product of a GRU that its reset gate multiplies, and the initial
    states, each [directions, batch, hidden]. The outputs are [steps, directions, batch, hidden] and the last states.
    All are float32 except integer weights. With integer weights, scales [directions, width] replace the bias, or the
    operands that `dot_products` packs replace both weights and bias.
    """

    kind: Kind
    steps: int
    batch: int
    hidden: int
    backward: tuple[bool, ...]
    """True if the direction runs backward, for each direction."""
    linear_before_reset: bool = False
    """True if the reset gate of a GRU multiplies the candidate's product with the state, not the state itself."""
    activation: Literal["Tanh", "Relu"] = "Tanh"
    """The activation of an RNN."""
    weights: Literal["float32", "int8", "int16"] = "float32"
    """The dtype of the weights. Integers come from the dynamic quantisation of ONNX Runtime, minus their zero point:
    every step rounds the state to 8 bits by its own range. Only an LSTM with one sequence may have integers."""
    has_lengths: bool = False
    """True if the last input has the length of each sequence, int32 [batch]: later outputs are zeros."""

    @classmethod
    def of_function(cls, function: Any) -> Recurrence | None:
        """Return the form that `describe` wrote into the function's attribute, or None for other functions."""
        text = (function.attrs or {}).get(FORM)
        if text is None:
            return None
        fields = json.loads(str(text))
        return cls(**fields | {"backward": tuple(fields["backward"])})

    def describe(self) -> str:
        """Return the form as JSON, for the attribute `FORM` of a kernel."""
        return json.dumps(asdict(self))

    @property
    def gates(self) -> int:
        """The number of gates of a hidden unit."""
        return GATES[self.kind]

    @property
    def is_large(self) -> bool:
        """Return whether a GPU is faster if all its blocks share the product of each step."""
        return self.gates * self.hidden**2 > LARGEST_BLOCK

    @property
    def states(self) -> int:
        """The number of states: 2 for an LSTM, which has a cell, else 1."""
        return 2 if self.kind == "LSTM" else 1

    @property
    def directions(self) -> int:
        """The number of directions."""
        return len(self.backward)

    @property
    def panel(self) -> int:
        """The number of hidden units in a panel, which is a register tile."""
        return _PANEL[self.kind]

    @property
    def panels(self) -> int:
        """The number of panels of one direction."""
        return -(-self.hidden // self.panel)

    @property
    def padded(self) -> int:
        """The number of hidden units of one direction, padded to whole panels."""
        return self.panels * self.panel

    @property
    def width(self) -> int:
        """The number of gate values of one direction, with padding."""
        return self.gates * self.padded

    @cached_property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """The gates that each pass over the state adds up.

        A GRU needs a second pass for its candidate if the reset gate multiplies the state.
        """
        if self.kind == "GRU" and not self.linear_before_reset:
            return (0, 1), (2,)
        return (tuple(range(self.gates)),)

    @property
    def is_quantized(self) -> bool:
        """Return whether the weights are integers."""
        return self.weights != "float32"

    def pack_gates(self, rows: NDArray[Any], unused: float = 0) -> NDArray[Any]:
        """Return rows [gates * hidden, …] of one direction in the order of ``projected``: [panels * gates * panel, …].

        Padding rows are filled with ``unused``.
        """
        apart = rows.reshape(self.gates, self.hidden, *rows.shape[1:])
        more = [(0, 0), (0, self.padded - self.hidden), *[(0, 0)] * (rows.ndim - 1)]
        panels = np.pad(apart, more, constant_values=unused).reshape(
            self.gates, self.panels, self.panel, *rows.shape[1:]
        )
        return np.ascontiguousarray(panels.swapaxes(0, 1).reshape(self.width, *rows.shape[1:]))

    def pack_weights(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return weights [directions, gates * hidden, hidden] in the kernel's order, flat.

        For each direction, pass and panel, the order is state values x gates x hidden units.
        """
        parts = []
        for own in weights:
            panels = self.pack_gates(own).reshape(self.panels, self.gates, self.panel, self.hidden)
            parts += [panels[:, list(gates)].transpose(0, 3, 1, 2).reshape(-1) for gates in self.passes]
        return np.ascontiguousarray(np.concatenate(parts), dtype=self.weights)

    def pack_bias(self, bias: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a bias [directions, hidden] padded to whole panels."""
        return np.pad(bias, ((0, 0), (0, self.padded - self.hidden)))
