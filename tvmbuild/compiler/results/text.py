"""The text of a network that reads a line."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.postprocess_specs import Text
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.maxima import RowMaxima, write_row_maxima
from tvmbuild.compiler.kernels.results.text import COLUMNS, TextSteps, write_text
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_output, refuse_output


@dataclass(frozen=True)
class TextResult:
    """The text in one output."""

    places: tuple[int, ...]
    maxima: RowMaxima
    steps: TextSteps

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`."""
        return None

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the characters [1 + steps, 2]."""
        function = write_row_maxima(self.maxima, on_gpu=calls.on_gpu)
        found = calls.add("symbols", function, request.outputs, self.maxima.list_outputs())
        function = write_text(self.steps, on_gpu=calls.on_gpu)
        return calls.add("text", function, found, [((1 + self.steps.steps, COLUMNS), "float32")])


def describe_text(interface: Interface, _: EntryOptions, asked: Text) -> TextResult:
    """Return the form of the text. Raises TvmbuildError if the output does not have a score for each symbol."""
    place, info = find_output(interface, asked.outputs, "the result `text`")
    shape = info.shape
    if len(shape) != 3 or 1 not in shape[:2] or shape[2] < 2:
        raise refuse_output("`text` needs an output [1, steps, symbols] or [steps, 1, symbols]", info)
    steps, symbols = shape[0] * shape[1], shape[2]
    maxima = RowMaxima(steps, symbols, (shape, info.dtype), asked.activation == "softmax")
    return TextResult((place,), maxima, TextSteps(steps, 0 if asked.blank == "first" else symbols - 1))
