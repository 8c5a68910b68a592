"""Find out for every operator of ONNX whether it is right or refused, and why.

python benchmarks/onnx_conformance.py [--target vulkan] [--only REGEX] [--jobs 2] [--table docs/reference/operators.md]

Takes the node cases of onnx's own test suite through import, lowering, schedules by rule and code for x86-64-v3 or for
lavapipe, each in its own process with a time limit, and compares with the outputs that come with them. Ends with 1 if
one is wrong or crashes. ``--table`` writes the results into the page. Takes about six minutes on two cores.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

from node_cases import NodeCase, TargetKind, Verdict, list_cases, run_case
from node_processes import load_for_children, run_apart

from tvmbuild.base.files import write_text

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
MAX_REASONS = 4
COLUMNS = 119
Verdicts = Mapping[str, tuple[NodeCase, Verdict]]
_WHERE = re.compile(r"^test_\S+: | \(node '[^']*'\)| \(\S*_\d+\)")


def main() -> int:
    """Run the cases; return 1 if one is wrong or crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name has this")
    parser.add_argument("--target", choices=("llvm", "vulkan"), default="llvm", help="the kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    cases = [case for case in list_cases() if re.search(args.only, case.name)]
    verdicts = _run(cases, args.jobs, args.target)
    bad = [(name, verdict) for name, (_, verdict) in verdicts.items() if verdict.kind in {"wrong", "crashed"}]
    for name, verdict in bad:
        print(f"{verdict.kind}: {name}: {verdict.reason}")
    print(summarize(verdicts))
    if args.table:
        before, _, rest = args.table.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        write_text(args.table, f"{before}{BEGIN}\n{make_table(verdicts)}{END}{after}")
    return 1 if bad else 0


def _run(cases: Sequence[NodeCase], jobs: int, kind: TargetKind) -> Verdicts:
    verdicts = {}
    run = partial(run_apart, run=partial(run_case, kind=kind))
    with ProcessPoolExecutor(jobs, initializer=load_for_children) as pool:
        for number, (case, verdict) in enumerate(zip(cases, pool.map(run, cases), strict=True)):
            verdicts[case.name] = (case, verdict)
            print(f"\r{number + 1} of {len(cases)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return verdicts


def summarize(verdicts: Verdicts) -> str:
    """Return one line with the number of cases for each verdict."""
    counts: Counter[str] = Counter(verdict.kind for _, verdict in verdicts.values())
    words = {"folded": "right where all inputs are constants", "skipped": "outside"}
    kinds = ("right", "folded", "refused", "wrong", "crashed", "skipped")
    return ", ".join(f"{counts[kind]} {words.get(kind, kind)}" for kind in kinds)


def make_table(verdicts: Verdicts) -> str:
    """Return the Markdown: the facts of the run, the operators without a fault, and a row for each other one."""
    rows: dict[str, list[Verdict]] = defaultdict(list)
    for case, verdict in verdicts.values():
        rows[case.operator].append(verdict)
    tools = ", ".join(f"{name} {version(name)}" for name in ("onnx", "apache-tvm"))
    lines = [f"{len(verdicts)} cases: {summarize(verdicts)}", f"({tools}, {time.strftime('%Y-%m-%d')}).", ""]
    names = sorted(rows, key=str.lower)
    right = [name for name in names if all(each.kind == "right" for each in rows[name])]
    others = [_row(name, rows[name]) for name in names if name not in right]
    if right:
        lines += [*textwrap.wrap(f"All cases of these operators are right: {', '.join(right)}.", COLUMNS), ""]
    return "\n".join([*lines, "| operator | right | refused | why |", "|---|---|---|---|", *others]) + "\n"


def _row(operator: str, verdicts: Sequence[Verdict]) -> str:
    counts = Counter(each.kind for each in verdicts)
    reasons = dict.fromkeys(_shorten(each.reason, operator) for each in verdicts if each.reason)
    refused = counts["refused"] + counts["folded"]
    return f"| {operator} | {counts['right'] or ''} | {refused or ''} | {_join(list(reasons))} |"


def _join(reasons: list[str]) -> str:
    more = f"; {len(reasons) - MAX_REASONS} more" if len(reasons) > MAX_REASONS else ""
    return "; ".join(reasons[:MAX_REASONS]) + more


def _shorten(reason: str, operator: str) -> str:
    """Return a reason in one line, without the name of the operator that its row begins with."""
    short = re.sub(rf"the operator {operator}( of \S+)? cannot be built: ", "", _WHERE.sub("", reason))
    return short.replace(f"import the operator {operator}: ", "import it: ").replace("|", "\\|")[:160]


if __name__ == "__main__":
    sys.exit(main())
