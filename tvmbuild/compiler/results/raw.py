"""Outputs as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmbuild.base.postprocess_specs import Raw
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_outputs, refuse_counted

if TYPE_CHECKING:
    from tvm import relax


@dataclass(frozen=True)
class RawResult:
    """The outputs that are returned beside the results of others."""

    places: tuple[int, ...]
    classes: int | None = None
    """The number of classes that labels name, as in `ResultForm`."""

    def write(self, _: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the outputs."""
        return list(request.outputs)


def describe_raw(interface: Interface, _: EntryOptions, asked: Raw) -> RawResult:
    """Return the form of the outputs. Raises TvmbuildError if the network lacks one, or if its length is not fixed."""
    said = "the result `raw`"
    places = find_outputs(interface, asked.outputs, len(asked.outputs), said)
    for place in places:
        if interface.outputs[place].counts:
            raise refuse_counted(said, interface.outputs[place])
    return RawResult(places)
