"""`tvmbuild explain kernel MODEL@TARGET [OPERATOR]`: which record or rule made each kernel's schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvmbuild.base.wording import count
from tvmbuild.cli.inspection import inspect_cell
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan

_ORIGINS = {
    "record": "a record",
    "given": "the loops that it was written with",
}


def explain_kernels(plan: Plan, words: Sequence[str]) -> int:
    """Print, for each kernel of a cell whose name has the operator's in it, where its schedule comes from."""
    if not 1 <= len(words) <= 2:
        raise TvmbuildError("which kernels?", "`tvmbuild explain kernel MODEL@TARGET [OPERATOR]`.")
    cell, *operators = words
    kernels = inspect_cell(plan, cell)["kernels"]
    chosen = [each for each in kernels if all(word.lower() in each["name"].lower() for word in operators)]
    if not chosen:
        names = sorted({each["name"] for each in kernels})
        raise TvmbuildError(f"no kernel of {cell} has {operators[0]!r} in its name", f"It has {', '.join(names)}.")
    for kernel in chosen:
        print("\n".join(_describe(kernel)))
    return 0


def _describe(kernel: dict[str, Any]) -> Iterator[str]:
    took = [each for each in kernel["attempts"] if each["refused"] is None]
    origin = _ORIGINS.get(kernel["origin"])
    if origin is None:
        rules = list(dict.fromkeys(map(_name, took)))
        origin = f"the rule {' and '.join(rules)}" if rules else "no rule: its loops are plain"
    yield f"{kernel['name']} ({kernel['key']}, {count(kernel['calls'], 'call')}): {origin}"
    for each in kernel["attempts"]:
        if each["refused"] is not None:
            yield f"  not {_name(each)}: {each['refused']}"


def _name(attempt: dict[str, Any]) -> str:
    block = attempt["block"]
    return f"{attempt['rule']} ({block})" if block else str(attempt["rule"])
