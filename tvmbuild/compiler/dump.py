"""The dump of the module after each pass, to the folder that ``--dump-ir DIR`` or TVMBUILD_DUMP_IR names.

``000-imported.py`` is the module before the first pass, ``NNN-PHASE-PASS.py`` the module after a pass that changed it,
in TVMScript without the constants' values, and ``passes.txt`` the table of all passes that ran.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.pass_manager import PassRun, observe_passes

DUMP_IR = "TVMBUILD_DUMP_IR"
"""The environment variable with the folder that gets a subfolder for each package that is built."""
TABLE = "passes.txt"


@dataclass(frozen=True)
class Ran:
    """A pass that ran, with its effect and its time."""

    phase: str
    name: str
    changed: str
    """The change in a few words; empty if the module is structurally the same as before."""
    seconds: float
    missed: Mapping[str, int] = FrozenMap()
    """The reason why the pass did not rewrite an operator → the number of operators."""


@contextmanager
def record_passes(folder: Path | None = None) -> Iterator[list[Ran]]:
    """Yield a list that gets an entry for each pass that runs in the block.

    If ``folder`` is given, write the module there after each pass that changed it, and at the end the table of passes.
    """
    ran: list[Ran] = []

    def observe(run: PassRun) -> None:
        same = run.before.same_as(run.after) or bool(
            tvm_ffi.structural_equal(run.before, run.after, map_free_vars=True)
        )
        if folder is not None and not ran:
            _write(folder / "000-imported.py", run.before)
        changed = "" if same else describe_change(run.before, run.after)
        ran.append(Ran(run.phase.name, run.which.name, changed, run.seconds, run.missed))
        if folder is not None and not same:
            _write(folder / f"{len(ran):03}-{run.phase.name.replace(' ', '-')}-{run.which.name}.py", run.after)

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*folder.glob("[0-9][0-9][0-9]-*.py"), folder / TABLE):
            old.unlink(missing_ok=True)
    try:
        with observe_passes(observe):
            yield ran
    finally:
        if folder is not None:
            (folder / TABLE).write_text("".join(f"{line}\n" for line in format_table(ran)), encoding="utf-8")


@contextmanager
def dump_where_asked(name: str) -> Iterator[None]:
    """Dump the passes that run in the block to TVMBUILD_DUMP_IR's subfolder ``name``, if this variable is set."""
    asked = os.environ.get(DUMP_IR)
    if not asked:
        yield
        return
    with record_passes(Path(asked) / name):
        yield


def describe_change(before: tvm.ir.IRModule, after: tvm.ir.IRModule) -> str:
    """Return the change in the number of calls of each operator, and the number of TensorIR functions that differ."""
    calls = _count_calls(after)
    calls.subtract(_count_calls(before))
    parts = [
        f"{number:+} {name}"
        for name, number in sorted(calls.items(), key=lambda item: (item[1] > 0, item[0]))
        if number
    ]
    old, new = _list_functions(before), _list_functions(after)
    changed = sum(1 for name in new.keys() & old.keys() if not tvm_ffi.structural_equal(old[name], new[name]))
    parts += [f"{changed} functions changed"] if changed else []
    if added := len(new) - len(old):
        parts.append(f"{added:+} functions")
    return ", ".join(parts) or "names, types or attributes"


def format_table(ran: list[Ran]) -> list[str]:
    """Return the lines of a table of the passes: the changes, the missed rewrites with their reasons, and the times."""
    width = max((len(each.name) for each in ran), default=0)
    lines: list[str] = []
    phase = ""
    for number, each in enumerate(ran, 1):
        if each.phase != phase:
            phase = each.phase
            lines.append(f"{phase}:")
        lines.append(f"  {number:03} {each.name:{width}} {each.seconds * 1000:8.1f} ms  {each.changed or '-'}")
        lines += [f"      missed {number}: {reason}" for reason, number in sorted(each.missed.items())]
    fired, total = sum(bool(each.changed) for each in ran), sum(each.seconds for each in ran)
    return [*lines, f"{len(ran)} passes, {fired} changed something, {total:.2f} s"]


def _write(path: Path, mod: tvm.ir.IRModule) -> None:
    path.write_text(mod.script(show_meta=False) + "\n", encoding="utf-8")


def _count_calls(mod: tvm.ir.IRModule) -> Counter[str]:
    found: Counter[str] = Counter()

    def note(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            found[str(expr.op.name).removeprefix("relax.")] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, note)
    return found


def _list_functions(mod: tvm.ir.IRModule) -> dict[str, tirx.PrimFunc]:
    return {
        str(variable.name_hint): function
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc)
    }
