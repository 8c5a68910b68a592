"""Schedule rules tried one after the other: one may refuse a function; whatever else it raises is a bug of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tvm import s_tir

from tvmbuild.compiler.bugs import report_bug

Given = ParamSpec("Given")
Made = TypeVar("Made")


class ScheduleRefused(Exception):  # noqa: N818 - not a fault: the next rule is tried
    """A rule meets a form that it does not take."""


REFUSALS = (ScheduleRefused, s_tir.ScheduleError)
"""What a rule raises, and TVM's primitives for it, on a form that it does not take."""


def try_rule(rule: Callable[Given, Made | None], *given: Given.args, **options: Given.kwargs) -> Made | None:
    """Return what the rule makes of what it is given; None where it refuses.

    Anything else that it raises is a bug: raised here under TVMBUILD_STRICT, told in a note elsewhere.
    """
    try:
        return rule(*given, **options)
    except REFUSALS:
        return None
    except Exception as error:  # noqa: BLE001 - told
        report_bug(f"the schedule rule {_name(rule)}", error)
        return None


def try_dlight(rule: Callable[Given, Made | None], *given: Given.args, **options: Given.kwargs) -> Made | None:
    """Return what a rule of TVM's DLight makes of what it is given; None where it refuses, in whatever way."""
    try:
        return rule(*given, **options)
    except Exception:  # noqa: BLE001 - an assertion, an attribute of None, an index: it has no error of its own
        return None


def _name(rule: Callable[..., object]) -> str:
    function = getattr(rule, "func", rule)
    module = str(function.__module__).rpartition("schedules.")[2]
    return f"{module}.{function.__qualname__}"
