from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from tvmbuild.engine import display

STEP = "tune:silero_vad@x86-64-v3"
SEARCH = "7/18 Tasks; 0.0234 ms; at most 43 s left; 0.0228 ms expected; 67 candidates, 1.8/s"
SHOWS_ONE = """
import sys, time
from tvmbuild.engine import display
display.FIRST_S = 0
with display.show_progress(sys.argv[1]) as show:
    show(sys.argv[2])
    time.sleep(0.3)
print("over")
"""


def test_a_log_gets_few_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 1000.0
    monkeypatch.setattr("tvmbuild.engine.display.time.monotonic", lambda: now)
    with display.show_progress("tune:a@b") as show:
        for second in range(300):
            now = 1000.0 + second
            show(f"{second} s")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"   tune:a@b  {second} s" for second in (5, 15, 35, 75, 135, 195, 255)]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (120, f"{STEP}  {SEARCH}"),
        (98, f"{STEP}  7/18 Tasks; 0.0234 ms; at most 43 s left; 0.0228 ms expected…"),
        (78, f"{STEP}  7/18 Tasks; 0.0234 ms; at most 43 s left…"),
        (38, f"{STEP}  7/18 Tasks…"),
        (30, "tune:silero_vad@x…  7/18 Tasks…"),
    ],
)
def test_a_line_loses_what_matters_least(columns: int, line: str) -> None:
    assert display.fit(STEP, SEARCH, columns) == line


def test_a_part_wider_than_the_line_leaves_half_of_it_to_the_name() -> None:
    assert display.fit("simplify:a_long_name", "fetching https://example.org", 30) == (
        "simplify:a_lon…  fetching https://example.org"  # the terminal's end cuts it
    )
    assert display.fit(STEP, "", 80) == STEP


def show_on_terminal(progress: str, columns: int, **variables: str) -> str:
    """Return the output for a terminal of that many columns."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"there is no pseudo-terminal: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-c", SHOWS_ONE, STEP, progress]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm"} | variables):
        os.close(theirs)
        got = b""
        while b"over\r\n" not in got:
            got += os.read(ours, 4096)
    os.close(ours)
    return got.decode()


@pytest.mark.parametrize("columns", [100, 80, 40, 20])
def test_a_live_line_never_wraps(columns: int) -> None:
    got = show_on_terminal(SEARCH, columns)
    assert display.fit(STEP, SEARCH, columns - 2)[: columns - 3] in got
    assert got.count("\x1b[1A") == 1  # one line up, once, when the live line goes; more if it took several lines


def test_a_terminal_without_a_cursor_gets_lines() -> None:
    assert show_on_terminal(SEARCH, 80, TERM="dumb") == f"   {STEP}  {SEARCH}\r\nover\r\n"
