"""The commands in pages: tvmbuild accepts each of them, and the tutorial's and README's are run."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import list_pages
from shown_commands import find_unseen, list_blocks, list_shown, run_shell

from tvmbuild.cli import COMMANDS

TUTORIAL = ("first-package", "own-model", "camera", "own-board", "ci-keeps-it")
NOT_HERE = re.compile(r"^pip install ")
"""The commands not run here: tests/cli/test_wheel.py installs, tests/fresh_machine.sh runs README's two commands."""


def _list_calls(text: str) -> Iterator[list[str]]:
    """Yield the words after `tvmbuild` of each whole call of one of our commands, in blocks and in sentences."""
    calls = re.findall(r"(?:^|`|[;&|(] ?|do )(?:[A-Z_]+=\S+ )*tvmbuild ([^`;&|)>#\n]*)", text, flags=re.MULTILINE)
    for call in calls:
        words = shlex.split(re.split(r"\s{3,}", call)[0])
        if len(words) > 1 and words[0] in COMMANDS and not re.search(r"…|\[", call):
            yield words


def test_every_command_is_one_that_tvmbuild_takes(project_root: Path) -> None:
    calls = [
        (page.relative_to(project_root), words)
        for page in list_pages(project_root)
        for words in _list_calls(page.read_text(encoding="utf-8"))
    ]
    assert len(calls) > 100
    refused = [f"{page}: tvmbuild {shlex.join(words)}: {why}" for page, words in calls if (why := _refuse(words))]
    assert not refused, "\n".join(refused)


def _refuse(words: list[str]) -> str | None:
    """Return the error of a call; None for a correct one. A sentence may leave out arguments."""
    parser = ArgumentParser(prog=f"tvmbuild {words[0]}")
    importlib.import_module(COMMANDS[words[0]]).add_arguments(parser)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser.parse_args(words[1:])
    except SystemExit as ended:
        message = said.getvalue().splitlines()[-1]
        return None if ended.code == 0 or re.search(r"required|expected one argument", message) else message
    return None


def test_every_benchmark_is_there_and_takes_its_options(project_root: Path) -> None:
    scripts = {path.name: path.read_text(encoding="utf-8") for path in (project_root / "benchmarks").glob("*.py")}
    known = set(re.findall(r"--[a-z][a-z-]+", "".join(scripts.values())))
    named = [
        (page.relative_to(project_root), name, options)
        for page in list_pages(project_root)
        for name, options in re.findall(r"python benchmarks/(\S+\.py)([^`\n]*)", page.read_text(encoding="utf-8"))
    ]
    assert len(named) > 25
    assert [each for each in named if each[1] not in scripts or set(re.findall(r"--[a-z-]+", each[2])) - known] == []


def test_every_block_says_who_runs_it_or_why_nobody_does(project_root: Path) -> None:
    untold = []
    for page in [*(project_root / "docs").rglob("*.md"), project_root / "CONTRIBUTING.md"]:
        if page.parent.name == "tutorial":
            continue  # they are run below
        found = re.findall(r"^(.*)\n```sh\n(.*)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for before, first in found:
            told = re.fullmatch(r"<!-- (?:not run: .+|run by (\S+)) -->", before)
            if not (first.startswith("python benchmarks/") or (told and (project_root / (told[1] or "")).exists())):
                untold.append(f"{page.relative_to(project_root)}: {first}")
    assert untold == []


def test_readmes_two_commands_are_those_of_the_bare_machine(project_root: Path) -> None:
    readme = (project_root / "README.md").read_text(encoding="utf-8")
    commands = [block.strip() for _, block in list_blocks(readme, "sh") if "python3 -m venv" in block]
    assert len(commands) == 2
    bare = (project_root / "tests/fresh_machine.sh").read_text(encoding="utf-8").replace("install -q", "install")
    assert all(f'time run "{command}"' in bare for command in commands)


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.timeout(900)
def test_the_tutorial_and_readme_run(project_root: Path, tmp_path: Path) -> None:
    """One shell runs all their blocks, beside the files of a clone of the repository, and prints what they show."""
    (tmp_path / "models").symlink_to(project_root / "models")
    shutil.copytree(project_root / "records", tmp_path / "records")
    built = shutil.ignore_patterns("build", "__pycache__")
    shutil.copytree(project_root / "examples", tmp_path / "examples", symlinks=True, ignore=built)
    script = ["set -euo pipefail"]
    shown: list[str] = []
    for name in TUTORIAL:
        text = (project_root / "docs/tutorial" / f"{name}.md").read_text(encoding="utf-8")
        shown += list_shown(text)
        script += (block for reason, block in list_blocks(text, "sh") if not reason)
        python = (block for reason, block in list_blocks(text, "python") if not reason)
        script += (f"python - <<'END'\n{block}END\n" for block in python)
    readme = (project_root / "README.md").read_text(encoding="utf-8")
    used = readme[: readme.index("## Hardware")]
    script.append('cd "$CLONE"; cd ~/voice')  # where README's first block, the tutorial's too, ends
    script += (block for _, block in list_blocks(used, "sh") if "init" not in block)
    script += (f"python - <<'END'\n{block}END\n" for reason, block in list_blocks(used, "python") if not reason)
    text = "\n".join(line for line in "\n".join(script).splitlines() if not NOT_HERE.search(line))
    done = run_shell(text, tmp_path, project_root)
    assert done.returncode == 0, done.stdout[-4000:]
    # The first command of README is the tutorial's, too.
    first, second = (list(list_shown(part)) for part in used.split("## Your own model"))
    assert find_unseen([*shown, *second], done.stdout) == [], done.stdout
    assert find_unseen(first, done.stdout) == [], done.stdout
    assert "285 Egyptian cat" in done.stdout  # README's Python


def test_what_pages_say_is_printed_is_compared() -> None:
    page = "```sh\nls\n```\n\n```\nok a@x86-64-v3  0.6 s\n ▲ 1.2 0.5x\n ─────\n```\n```\nno command's\n```\n"
    page += "<!-- not run: why -->\n```sh\nls\n```\n\n```\nnever printed\n```\n"
    shown = list(list_shown(page))
    assert shown == ["ok a@x86-64-v3  0.6 s", " ▲ 1.2 0.5x"]
    assert find_unseen(shown, "before\nok a@x86-64-v3 12.0 s\n▼? 1.3 2.5x\n") == []
    assert find_unseen(shown, "ok a@x86-64-v4  0.6 s\n▲ 1.2 0.5x\n") == shown
    assert find_unseen(shown, "▲ 1.2 0.5x\nok a@x86-64-v3  0.6 s\n") == shown[1:]
    assert find_unseen(["1.2 ms on 2026-11-25 03:51"], "1.4 ms on 2027-01-02 12:00\n") == []


@pytest.mark.nightly
def test_cpp_without_a_system_compiler(project_root: Path, tmp_path: Path) -> None:
    ((_, code),) = list_blocks((project_root / "README.md").read_text(encoding="utf-8"), "cpp")
    (tmp_path / "main.cpp").write_text(code)
    page = (project_root / "docs/how-to/cpp.md").read_text(encoding="utf-8")
    (programs,) = (block for _, block in list_blocks(page, "sh") if block.startswith("cd "))
    compile_readmes = "python -m ziglang c++ -c $(tvmbuild config --cflags) main.cpp -o main.o"
    done = run_shell(f"set -e\n{compile_readmes}\n{programs}\n~/bench_model --help", tmp_path, project_root)
    assert done.returncode == 0, done.stdout
    assert "usage: bench_model" in done.stdout
