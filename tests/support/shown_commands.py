"""The commands that a page shows, run in one shell, and the output that the page shows for them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]*) -->\n)?^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"\b\d{4}-\d\d-\d\d\b|(?<![\w@/-])[\d.]+(?:e[-+]\d+)?")
"""Matches days and numbers, but not the numbers in names: `mobilenet_v2@x86-64-v3`."""
_VERDICT = re.compile(r"[▲▼≈]\?? |[\d.]+x (?:faster|slower)|no difference")
"""Matches comparisons, because the faster of two may differ from machine to machine."""


def list_blocks(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks of a language, each with the reason in the comment before it for not running it."""
    for block in _BLOCK.finditer(text):
        if block["language"] == language:
            yield block["reason"] or "", block["text"]


def list_shown(text: str) -> Iterator[str]:
    """Yield the lines of blocks without a language right after a command that is run: its shown output."""
    before: re.Match[str] | None = None
    for block in _BLOCK.finditer(text):
        follows = before is not None and not text[before.end() : block.start()].strip()
        if not block["language"] and before is not None and follows and not before["reason"]:
            yield from (line for line in block["text"].splitlines() if line.strip(" ─"))
        before = block if block["language"] in ("sh", "python") else None


def find_unseen(shown: Iterable[str], output: str) -> list[str]:
    """Return the lines missing from the output in this order; spaces, numbers and comparisons may differ."""
    printed = iter(output.splitlines())
    return [line for line in shown if not _comes(_normalise(line), printed)]


def _comes(line: str, printed: Iterator[str]) -> bool:
    return any(line == _normalise(each) for each in printed)


def _normalise(line: str) -> str:
    """Return the line without the parts that differ between machines; `~0.93x` is a ratio that shows no difference."""
    return " ".join(_NUMBER.sub("#", _VERDICT.sub("! ", line)).replace("~#x", "#x").split())


def run_shell(script: str, folder: Path, project_root: Path) -> subprocess.CompletedProcess[str]:
    """Run bash in the folder, with this tvmbuild's commands and none of the user's settings; output is both streams."""
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    who = {f"GIT_{part}_{what}": "someone" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": path, "PYTHONPATH": str(project_root), "HOME": str(folder), "COLUMNS": "200", **who}
    locks = folder / "home-locks"
    locks.mkdir(mode=0o700)
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment | {"XDG_RUNTIME_DIR": str(locks)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
