"""The kept verdicts on onnx's node cases, counted for each operator with reasons, and the site's table of them."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.files import write_text

RESULTS = Path(__file__).resolve().parent / "results" / "onnx_cases.json"
KINDS = ("right", "folded", "refused", "wrong", "crashed", "skipped")
"""The kinds of verdicts, in the order of the summary."""
WORDS = {"folded": "right where all inputs are constants", "skipped": "outside"}
MAX_REASONS = 4
COLUMNS = 119


@dataclass(frozen=True)
class OperatorResult:
    """The verdicts on one operator's cases."""

    counts: Mapping[str, int]
    """Kind of verdict → number of cases."""
    reasons: Sequence[str] = ()
    """The different reasons of the cases that are not right."""

    def make_row(self, operator: str) -> str:
        """Return the operator's row in the table."""
        refused = self.counts.get("refused", 0) + self.counts.get("folded", 0)
        more = f"; {len(self.reasons) - MAX_REASONS} more" if len(self.reasons) > MAX_REASONS else ""
        why = "; ".join(self.reasons[:MAX_REASONS]) + more
        return f"| {operator} | {self.counts.get('right') or ''} | {refused or ''} | {why} |"


@dataclass(frozen=True)
class CaseResults:
    """The verdicts of one run over all cases."""

    tools: Mapping[str, str]
    """Distribution → its version."""
    date: str
    operators: Mapping[str, OperatorResult]

    def summarize(self) -> str:
        """Return one line with the number of cases for each verdict."""
        total: Counter[str] = Counter()
        for each in self.operators.values():
            total.update(each.counts)
        return ", ".join(f"{total[kind]} {WORDS.get(kind, kind)}" for kind in KINDS)

    def make_table(self) -> str:
        """Return the Markdown: the facts of the run, the operators without a fault, and a row for each other one."""
        cases = sum(sum(each.counts.values()) for each in self.operators.values())
        tools = ", ".join(f"{name} {version}" for name, version in self.tools.items())
        lines = [f"{cases} cases: {self.summarize()}", f"({tools}, {self.date}).", ""]
        names = sorted(self.operators, key=str.lower)
        right = [name for name in names if set(self.operators[name].counts) == {"right"}]
        if right:
            lines += [*textwrap.wrap(f"All cases of these operators are right: {', '.join(right)}.", COLUMNS), ""]
        rows = [self.operators[name].make_row(name) for name in names if name not in right]
        return "\n".join([*lines, "| operator | right | refused | why |", "|---|---|---|---|", *rows]) + "\n"


def write_results(results: CaseResults, path: Path) -> None:
    """Write the results as JSON, one operator a line."""
    rows = [
        f"    {json.dumps(name)}: {json.dumps({**each.counts, 'reasons': list(each.reasons)})}"
        for name, each in sorted(results.operators.items(), key=lambda item: item[0].lower())
    ]
    head = f'  "tools": {json.dumps(dict(results.tools))},\n  "date": {json.dumps(results.date)},\n'
    body = ",\n".join(rows)
    write_text(path, f'{{\n{head}  "operators": {{\n{body}\n  }}\n}}\n')


def read_results(path: Path = RESULTS) -> CaseResults:
    """Read the results of the last run that were kept."""
    data = json.loads(path.read_text(encoding="utf-8"))
    operators = {
        name: OperatorResult({kind: row[kind] for kind in KINDS if kind in row}, row["reasons"])
        for name, row in data["operators"].items()
    }
    return CaseResults(data["tools"], data["date"], operators)
