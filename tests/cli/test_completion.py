"""The answers to the shell when it asks argcomplete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tvmbuild.cli.init import write_project


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tvmbuild b", {"benchmark", "benchmark:silero_vad@x86-64-v3", "build", "bench", "bundle"}),
        ("tvmbuild run --profile", {"--profile", "--profile-json"}),
        ("tvmbuild records ls x", {"x86-64-v3"}),
        ("tvmbuild explain compile tune=", {"tune=missing", "tune=never", "tune=full"}),
    ],
)
def test_the_project_is_completed(line: str, words: set[str], tmp_path: Path) -> None:
    write_project(tmp_path)
    assert complete(line, tmp_path) == words


def test_without_a_project_commands_are(tmp_path: Path) -> None:
    assert complete("tvmbuild ini", tmp_path) == {"init"}


def complete(line: str, folder: Path) -> set[str]:
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "said")}
    subprocess.run(
        [sys.executable, "-m", "tvmbuild"],
        cwd=folder,
        env=os.environ | asked | {"COMP_LINE": line, "COMP_POINT": str(len(line))},
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return {word.strip() for word in (folder / "said").read_text().split("\n")}
