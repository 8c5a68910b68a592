"""The code that `tests/mutations.py` breaks exists, and the tests that should notice exist too."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_each_mutation_applies(project_root: Path) -> None:
    mutations = runpy.run_path(str(project_root / "tests" / "mutations.py"))["MUTATIONS"]
    counts = {each.what: (project_root / each.file).read_text(encoding="utf-8").count(each.old) for each in mutations}
    assert {what: count for what, count in counts.items() if count != 1} == {}
    missing = [path for each in mutations for path in each.tests.split() if not (project_root / path).exists()]
    assert missing == []
