"""Shared-out tests are run: each part in one of the nights, and all of them on request."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain, product
from pathlib import Path

import pytest
from nights import ALL, SHARED_BY, VARIABLE, begin_night, draws, share

FILE = """
import pytest
@pytest.mark.nights(3)
@pytest.mark.parametrize("number", range(7))
def test_some(number): print(f"<{number}>", end="")
def test_always(): print("<always>", end="")
"""
SAMPLED = """
import pytest
CASES = ["1", "2", pytest.param("3", marks=pytest.mark.slow)]
@pytest.mark.sampled(2)
@pytest.mark.parametrize("letter", "abc")
@pytest.mark.parametrize("number", CASES)
def test_some(letter, number): print(f"<{letter}{number}>", end="")
@pytest.mark.sampled(2)
def test_always(): print("<always>", end="")
"""
COMPILED = """
import pytest
@pytest.mark.compiler
@pytest.mark.parametrize("number", range(4))
def test_some(number): print(f"<{number}>", end="")
@pytest.mark.compiler
@pytest.mark.sampled(2)
@pytest.mark.parametrize("letter", "ab")
def test_sampled(letter): print(f"<{letter}>", end="")
def test_always(): print("<always>", end="")
"""
CONFTEST = """
import pytest
from nights import note_whole_run, sample_cases, skip_other_nights
pytest_configure = note_whole_run
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    sample_cases(items)
    yield
    skip_other_nights(items)
"""


def run(folder: Path, *words: str, file: str = FILE, names: str = "test_some.py", **variables: str) -> list[str]:
    """Return the tests that ran in that night."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = .")
    (folder / "test_some.py").write_text(file)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *words, *names.split()],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            SHARED_BY: "1",
            **variables,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [word.partition("<")[2] for word in done.stdout.split(">")[:-1]]


def test_each_item_has_one_night(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for night in range(100, 104):
        monkeypatch.setenv(VARIABLE, str(night))
        parts.append(share(range(10), 4))
    assert sorted(chain.from_iterable(parts)) == list(range(10))
    assert max(map(len, parts)) == 3
    monkeypatch.setenv(VARIABLE, ALL)
    assert share(range(10), 4) == list(range(10))


def test_a_third_of_the_examples_is_drawn_and_all_of_them_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "7")
    assert [draws(each) for each in (1, 4, 12, 40)] == [1, 2, 4, 13]
    monkeypatch.setenv(VARIABLE, ALL)
    assert draws(12) == 12


def test_the_night_stays_for_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert begin_night().isdigit()
    assert os.environ[VARIABLE] == begin_night()


def test_marked_tests_are_shared_out_and_others_run_every_night(tmp_path: Path) -> None:
    nights = [run(tmp_path, **{VARIABLE: str(night)}) for night in range(3)]
    assert [night[-1] for night in nights] == ["always"] * 3
    assert [night[:-1] for night in nights] == [["0", "3", "6"], ["1", "4"], ["2", "5"]]
    assert len(run(tmp_path, **{VARIABLE: ALL})) == 8


def test_a_run_of_the_whole_suite_has_an_eighth_of_the_compilers_tests(tmp_path: Path) -> None:
    nights = ("8", "1", "6", ALL)
    whole = [run(tmp_path, file=COMPILED, names="", **{VARIABLE: night}) for night in nights]
    assert whole == [[*each, "a", "b", "always"] for each in ("0", "1", "", "0123")]
    assert run(tmp_path, file=COMPILED, **{VARIABLE: "9"}) == [*"0123ab", "always"]


def test_all_can_be_shared_out(tmp_path: Path) -> None:
    assert "always" in run(tmp_path, **{VARIABLE: "0", SHARED_BY: "2"})
    assert "always" not in run(tmp_path, **{VARIABLE: "1", SHARED_BY: "2"})


def test_a_sample_is_always_run_and_the_rest_nightly(tmp_path: Path) -> None:
    """Each night keeps two cases without the mark `slow` and two with it; three nights are enough for all."""
    quick = [run(tmp_path, "-m", "not nightly", file=SAMPLED, **{VARIABLE: str(night)}) for night in (7, 8, 9)]
    every = sorted([*map("".join, product("abc", "123")), "always"])
    assert sorted({*chain.from_iterable(quick)}) == every
    assert all(len(night) == len(set(night)) == 5 for night in quick)
    assert all(len({case[1] for case in night if case[1] == "3"}) == 1 for night in quick), "a mark is a kind"
    first, second = (case for case in quick[2] if case[1] in "12")  # night 9 of 3 begins the turn
    assert not set(first) & set(second), "both parameters have other values"
    rest = run(tmp_path, "-m", "nightly", file=SAMPLED, **{VARIABLE: "8"})
    assert sorted([*rest, *quick[1]]) == every
    assert sorted(run(tmp_path, "-m", "not nightly", file=SAMPLED, **{VARIABLE: ALL})) == every
