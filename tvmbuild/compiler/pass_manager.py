"""The classes of the pass table: a row has a pass's name, the lowerings that run it, and the order that it needs.

A pass runs as a TVM ``module_pass``, so that TVM's own instruments see it. A pass keeps its findings in an attribute of
the module, and later passes keep this attribute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import tvm

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.remarks import collect_missed
from tvmbuild.errors import TvmbuildError

Layout = Literal["NHWC", "NHWC each", "NCHW"]
"""The layout of convolutions. ``NHWC each`` means that each convolution alone is converted, between two transposes."""
NOTES = "tvmbuild_notes"
"""The name of the module attribute that holds the package's notes to its user."""


@dataclass(frozen=True)
class Lowering:
    """The facts about a lowering that its passes may use."""

    target: tvm.target.Target
    layout: Layout = "NCHW"
    algorithms: Mapping[str, str] = FrozenMap()
    """The signature of a convolution → its algorithm."""
    quantised: bool = False
    """True if the model came with quantised operators."""
    tf32: bool = False
    """True if products of float32 may be computed in TF32."""


Condition = Callable[[Lowering], bool]
Change = Callable[[tvm.ir.IRModule, Lowering], tvm.ir.IRModule]
Order = Mapping[str, str]
"""The name of a pass → the reason for the order."""


def on_cpu(lowering: Lowering) -> bool:
    """Return whether the target is a CPU."""
    return not is_gpu(lowering.target)


def on_gpu(lowering: Lowering) -> bool:
    """Return whether the target is a GPU."""
    return is_gpu(lowering.target)


def in_nhwc(lowering: Lowering) -> bool:
    """Return whether convolutions are computed in NHWC."""
    return lowering.layout != "NCHW"


def in_nhwc_throughout(lowering: Lowering) -> bool:
    """Return whether the whole graph is in NHWC."""
    return lowering.layout == "NHWC"


def in_nhwc_each(lowering: Lowering) -> bool:
    """Return whether each convolution is in NHWC between two transposes."""
    return lowering.layout == "NHWC each"


def in_nchw(lowering: Lowering) -> bool:
    """Return whether convolutions are computed in NCHW."""
    return lowering.layout == "NCHW"


def allows_tf32(lowering: Lowering) -> bool:
    """Return whether products of float32 may be computed in TF32."""
    return lowering.tf32


@dataclass(frozen=True)
class Pass:
    """A row of the pass table."""

    name: str
    change: Change
    """The function that runs the pass; it returns the same module object if it finds nothing to change."""
    when: tuple[Condition, ...] = ()
    """The pass runs if a lowering meets all these conditions."""
    after: Order = FrozenMap()
    """The passes that must run earlier than this one, and the reasons."""
    before: Order = FrozenMap()
    """The passes that must run later than this one, and the reasons."""
    is_tvms: bool = False
    """True if the pass is part of TVM. Such a pass may fail on an unforeseen graph; a failure of our pass is a bug."""
    written_in: Callable[..., object] | None = None
    """The function that does the work, for the documentation; None for a pass of TVM."""

    def applies(self, lowering: Lowering) -> bool:
        """Return whether the lowering runs the pass."""
        return all(condition(lowering) for condition in self.when)

    def run(self, mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
        """Run the pass, and return the changed module.

        Raises PassError if the pass fails. A TvmbuildError or LayoutUnsupported of the pass is raised unchanged.
        """
        raised: list[Exception] = []

        def change(before: tvm.ir.IRModule, _: Any) -> tvm.ir.IRModule:
            try:
                return self.change(before, lowering)
            except Exception as error:
                raised.append(error)  # on its way through TVM it would lose its type
                raise

        try:
            return tvm.transform.module_pass(change, opt_level=0, name=self.name)(mod)
        except Exception as error:  # noqa: BLE001 - PassError adds the pass's name to any error
            first = raised[0] if raised else error
            if isinstance(first, (TvmbuildError, LayoutUnsupported)):
                raise first from None
            raise PassError(self, first) from first


def of_module(
    name: str,
    change: Callable[[tvm.ir.IRModule], tvm.ir.IRModule],
    *when: Condition,
    after: Order = FrozenMap(),
    before: Order = FrozenMap(),
) -> Pass:
    """Return the pass-table row of a function that takes only the module."""
    return Pass(name, lambda mod, _: change(mod), when, after, before, written_in=change)


def of_target(
    name: str,
    change: Callable[[tvm.ir.IRModule, tvm.target.Target], tvm.ir.IRModule],
    *when: Condition,
    after: Order = FrozenMap(),
    before: Order = FrozenMap(),
) -> Pass:
    """Return the pass-table row of a function that takes the module and the target."""
    return Pass(name, lambda mod, lowering: change(mod, lowering.target), when, after, before, written_in=change)


def from_tvm(
    make: Callable[[], tvm.transform.Pass], *when: Condition, name: str | None = None, after: Order = FrozenMap()
) -> Pass:
    """Return the pass-table row of a TVM pass; its name is that of the function ``make`` unless ``name`` is given."""
    return Pass(name or make.__name__, lambda mod, _: make()(mod), when, after, is_tvms=True)


@dataclass(frozen=True)
class Phase:
    """A named sequence of passes that run one after the other."""

    name: str
    passes: Sequence[Pass]


class LayoutUnsupported(Exception):  # noqa: N818 - a condition that the next layout answers
    """An error that TVM cannot compute the module in the layout that was tried."""


class PassError(Exception):
    """The failure of a pass, with the error that it raised."""

    def __init__(self, failed: Pass, error: Exception) -> None:
        super().__init__(f"{failed.name}: {error}")
        self.failed = failed
        self.error = error


@dataclass(frozen=True)
class PassRun:
    """One run of a pass: the module before and after it, and its time."""

    phase: Phase
    which: Pass
    before: tvm.ir.IRModule
    after: tvm.ir.IRModule
    seconds: float
    missed: Mapping[str, int]
    """The reason why the pass did not rewrite an operator → the number of operators."""


Observer = Callable[[PassRun], None]

_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
_skipped: ContextVar[Collection[str]] = ContextVar("skipped", default=())


@contextmanager
def observe_passes(observer: Observer) -> Iterator[None]:
    """Call the observer after each pass that runs inside of the block."""
    token = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(token)


@contextmanager
def skip_passes(names: Collection[str]) -> Iterator[None]:
    """Leave out the passes with these names inside of the block, to find out which one is at fault."""
    token = _skipped.set(names)
    try:
        yield
    finally:
        _skipped.reset(token)


def run_passes(phases: Sequence[Phase], mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    """Run the passes of these phases that apply to the lowering, in their order."""
    for phase in phases:
        for each in phase.passes:
            if each.applies(lowering) and each.name not in _skipped.get():
                began = time.perf_counter()
                with collect_missed() as missed:
                    changed = each.run(mod, lowering)
                for observer in _observers.get():
                    observer(PassRun(phase, each, mod, changed, time.perf_counter() - began, missed))
                mod = changed
    return mod


def run_phase(phase: Phase, mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    """Run the passes of one phase that apply to the lowering; raise a pass's own error instead of PassError."""
    try:
        return run_passes([phase], mod, lowering)
    except PassError as error:
        raise error.error from error.error.__cause__


def as_tvms(phase: Phase, lowering: Lowering) -> tvm.transform.Pass:
    """Return the phase as one TVM pass."""
    return tvm.transform.module_pass(lambda mod, _: run_phase(phase, mod, lowering), opt_level=0, name=phase.name)


def add_notes(mod: tvm.ir.IRModule, notes: Sequence[str]) -> tvm.ir.IRModule:
    """Return the module with ``notes`` added to its notes for the user."""
    return mod.with_attr(NOTES, [*read_notes(mod), *notes]) if notes else mod


def read_notes(mod: tvm.ir.IRModule) -> tuple[str, ...]:
    """Return the module's notes for the user."""
    return tuple(str(note) for note in (mod.attrs or {}).get(NOTES) or ())
