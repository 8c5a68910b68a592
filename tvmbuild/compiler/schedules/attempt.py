"""Schedule rules, tried one after the other: a rule may refuse a function; any other exception is a bug of tvmbuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule.schedule import _ERROR_RENDER_LEVEL as _LEVELS

from tvmbuild.compiler.bugs import last_line, report_bug

Given = ParamSpec("Given")
Made = TypeVar("Made")


class ScheduleRefused(Exception):  # noqa: N818 - not a fault: the next rule is tried
    """The refusal of a rule that cannot schedule a function of this form."""


REFUSALS = (ScheduleRefused, s_tir.ScheduleError)
"""The exceptions with which our rules and TVM's schedule primitives refuse a function."""


@dataclass(frozen=True)
class Attempt:
    """One try of a rule, and its outcome."""

    block: str
    """The block that the rule was tried on; empty for the whole function."""
    rule: str
    refused: str | None
    """The reason why the rule refused, or None if it accepted."""
    made: object = field(default=None, compare=False, repr=False)
    """The schedule that the rule made, or a view of the function for other rules; True if it changed a schedule."""


@dataclass
class Trace:
    """The rules that were tried, in order."""

    attempts: list[Attempt] = field(default_factory=list)
    block: str = ""


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def trace_rules() -> Iterator[list[Attempt]]:
    """Yield a list that gets an entry for each rule that is tried in the context."""
    trace = Trace()
    token = _trace.set(trace)
    try:
        yield trace.attempts
    finally:
        _trace.reset(token)


@contextmanager
def tracing_block(name: str) -> Iterator[None]:
    """Let the attempts that are recorded in the context name this block of the function."""
    trace = _trace.get()
    if trace is not None:
        trace.block = name
    try:
        yield
    finally:
        if trace is not None:
            trace.block = ""


def try_rule(rule: Callable[Given, Made | None], *given: Given.args, **options: Given.kwargs) -> Made | None:
    """Apply the rule to its arguments, and return its result, or None if it refuses.

    Any exception that is not in `REFUSALS` is a bug: it is raised if TVMBUILD_RAISE_BUGS is set, else reported in a
    note.
    """
    try:
        made = rule(*given, **options)
    except REFUSALS as error:
        _record(rule, last_line(str(error)) or "TVM cannot schedule it so")
        return None
    except Exception as error:  # noqa: BLE001 - reported
        report_bug(f"the schedule rule {_name(rule)}", error)
        _record(rule, f"a bug: {error}")
        return None
    _record(rule, None if made is not None else "it is of another form", made)
    return made


def try_in_place(rule: Callable[Given, None], *given: Given.args, **options: Given.kwargs) -> bool:
    """Apply a rule that changes a schedule in place, and return whether it accepted the schedule.

    A rule that refuses may have changed the schedule partly.
    """

    def apply() -> bool:
        rule(*given, **options)
        return True

    return bool(try_rule(wraps(_function(rule))(apply)))


def try_dlight(rule: Any, function: tirx.PrimFunc, target: tvm.target.Target) -> s_tir.Schedule | None:
    """Apply a rule of DLight, a part of TVM, to the function; return None if it refuses or raises any exception."""
    name = f"dlight.{type(rule).__name__}"
    try:
        with _brief_errors():
            made = rule.apply(function, target, False)
    except Exception as error:  # noqa: BLE001 - DLight has no error class; it raises AssertionError, AttributeError …
        _record(name, last_line(str(error)) or type(error).__name__)
        return None
    schedule = made[0] if isinstance(made, list) else made
    _record(name, None if schedule is not None else "it is of another form", schedule)
    return schedule


@contextmanager
def _brief_errors() -> Iterator[None]:
    """Keep TVM from writing the function into the errors of schedules that are made here.

    DLight tries to inline every block, and each failure would print the function: a Split into 200 outputs took 15 s.
    """
    detail = _LEVELS["detail"]
    _LEVELS["detail"] = _LEVELS["none"]
    try:
        yield
    finally:
        _LEVELS["detail"] = detail


def _record(rule: Callable[..., object] | str, refused: str | None, made: object = None) -> None:
    trace = _trace.get()
    if trace is not None:
        trace.attempts.append(Attempt(trace.block, rule if isinstance(rule, str) else _name(rule), refused, made))


def _function(rule: Callable[..., object]) -> Callable[..., object]:
    return rule.func if isinstance(rule, partial) else rule


def _name(rule: Callable[..., object]) -> str:
    function = _function(rule)
    return f"{function.__module__.rpartition('schedules.')[2]}.{function.__qualname__}"
