"""The page of the compiler's passes agrees with the list, the docstrings and the passes themselves."""

from __future__ import annotations

import re
from pathlib import Path

from compiler_page import LISTED, PAGE, read_section, write_section
from pass_examples import EXAMPLES

COMMAND = "PYTHONPATH=.:tests/support python tests/support/compiler_page.py writes it again"


def test_the_page_is_up_to_date() -> None:
    assert read_section() == write_section(), COMMAND


def test_every_example_is_of_a_pass() -> None:
    assert set(EXAMPLES) <= {each.name for phase in LISTED for each in phase.passes}


def test_the_files_that_are_named_are_there(project_root: Path) -> None:
    table = PAGE.read_text().partition("## Where to look")[2].partition("## How it fails")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(named) > 15
    roots = (project_root / "tvmbuild" / "compiler", project_root / "tvmbuild")
    assert [each for each in named if not any((root / each).exists() for root in roots)] == []
