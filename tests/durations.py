"""Seconds by test file, of one or more runs, as a table in Markdown.

    pytest --junitxml=always.xml; pytest -m nightly --junitxml=nightly.xml
    python tests/durations.py always=always.xml nightly=nightly.xml

The seconds are of the tests themselves: two run at once. Files below SHOWN in every run share one line.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable

SHOWN = 5.0


def read(path: str) -> defaultdict[str, float]:
    """Return test file → seconds."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314 - our own
        seconds[str(case.get("classname"))] += float(case.get("time", "0"))
    return seconds


def main() -> int:
    """Print the table, sorted by the time in the first run."""
    runs = {name: read(path) for name, _, path in (word.partition("=") for word in sys.argv[1:])}
    known = {file for run in runs.values() for file in run}
    files = sorted(known, key=lambda file: [-run[file] for run in runs.values()])
    shown = [file for file in files if any(run[file] >= SHOWN for run in runs.values())]
    others = [file for file in files if file not in set(shown)]
    print(f"| file | {' | '.join(runs)} |\n|---|{'---|' * len(runs)}")
    for file in shown:
        print(f"| {file.removeprefix('tests.').replace('.', '/')} | {_row(run[file] for run in runs.values())} |")
    print(f"| {len(others)} others | {_row(sum(run[file] for file in others) for run in runs.values())} |")
    print(f"| all | {_row(sum(run.values()) for run in runs.values())} |")
    return 0


def _row(seconds: Iterable[float]) -> str:
    return " | ".join(f"{each:.0f}" if each >= 0.5 else "" for each in seconds)


if __name__ == "__main__":
    sys.exit(main())
