"""The list of the compiler's passes has each pass, and the page names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiler_page import LISTED, write_section
from pass_examples import EXAMPLES

from tvmbuild.compiler.pipeline import PHASES


@pytest.fixture(scope="module")
def section() -> str:
    """The list as the site shows it."""
    return write_section()


def test_every_pass_is_described(section: str) -> None:
    passes = [each for phase in LISTED for each in phase.passes]
    assert {each.name for phase in PHASES for each in phase.passes} < {each.name for each in passes}
    headings = re.findall(r"^(?:#### |\*\*)(\w+)(?:$|\*\* is)", section, re.MULTILINE)
    assert sorted(headings) == sorted(each.name for each in passes)
    own = re.findall(r"^#### \w+\n\n`(\S+)`, `\w+`\.[^#]*?\n\n([A-Z].*)", section, re.MULTILINE)
    assert len(own) == len([each for each in passes if not each.is_tvms])


def test_every_example_is_of_a_pass(section: str) -> None:
    assert set(EXAMPLES) <= {each.name for phase in LISTED for each in phase.passes}
    assert section.count("\nbecomes\n") == len(EXAMPLES)


def test_the_files_that_are_named_are_there(project_root: Path) -> None:
    page = (project_root / "docs/explanation/compiler.md").read_text(encoding="utf-8")
    table = page.partition("## Where to look")[2].partition("## How it fails")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(named) > 15
    roots = (project_root / "tvmbuild" / "compiler", project_root / "tvmbuild")
    assert [each for each in named if not any((root / each).exists() for root in roots)] == []
