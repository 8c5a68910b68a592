"""Find out for every operator of ONNX whether it is right or refused, and why.

python benchmarks/onnx_conformance.py [--target vulkan] [--only REGEX] [--jobs 2] [--keep]

Takes the node cases of onnx's own test suite through import, lowering, schedules by rule and code for x86-64-v3 or for
lavapipe, each in its own process with a time limit, and compares with the outputs that come with them. Ends with 1 if
one is wrong or crashes. ``--keep`` writes the results that docs/reference/operators.md shows on the site.
Takes about six minutes on two cores.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version

from node_cases import NodeCase, TargetKind, Verdict, list_cases, run_case
from node_processes import load_for_children, run_apart
from operator_results import KINDS, RESULTS, CaseResults, OperatorResult, write_results

Verdicts = Mapping[str, tuple[NodeCase, Verdict]]
_WHERE = re.compile(r"^test_\S+: | \(node '[^']*'\)| \(\S*_\d+\)")


def main() -> int:
    """Run the cases; return 1 if one is wrong or crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name has this")
    parser.add_argument("--target", choices=("llvm", "vulkan"), default="llvm", help="the kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    if args.keep and (args.only or args.target != "llvm"):
        parser.error("--keep needs all cases, for llvm: leave --only and --target out")
    cases = [case for case in list_cases() if re.search(args.only, case.name)]
    verdicts = _run(cases, args.jobs, args.target)
    bad = [(name, verdict) for name, (_, verdict) in verdicts.items() if verdict.kind in {"wrong", "crashed"}]
    for name, verdict in bad:
        print(f"{verdict.kind}: {name}: {verdict.reason}")
    results = sum_up(verdicts)
    print(results.summarize())
    if args.keep:
        write_results(results, RESULTS)
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


def sum_up(verdicts: Verdicts) -> CaseResults:
    """Count the verdicts of each operator's cases."""
    rows: dict[str, list[Verdict]] = defaultdict(list)
    for case, verdict in verdicts.values():
        rows[case.operator].append(verdict)
    tools = {name: version(name) for name in ("onnx", "apache-tvm")}
    operators = {name: _count(name, found) for name, found in rows.items()}
    return CaseResults(tools, time.strftime("%Y-%m-%d"), operators)


def _count(operator: str, verdicts: Sequence[Verdict]) -> OperatorResult:
    counts: Counter[str] = Counter(each.kind for each in verdicts)
    reasons = dict.fromkeys(_shorten(each.reason, operator) for each in verdicts if each.reason)
    return OperatorResult({kind: counts[kind] for kind in KINDS if counts[kind]}, list(reasons))


def _shorten(reason: str, operator: str) -> str:
    """Return a reason in one line, without the name of the operator that its row begins with."""
    short = re.sub(rf"the operator {operator}( of \S+)? cannot be built: ", "", _WHERE.sub("", reason))
    return short.replace(f"import the operator {operator}: ", "import it: ").replace("|", "\\|")[:160]


if __name__ == "__main__":
    sys.exit(main())
