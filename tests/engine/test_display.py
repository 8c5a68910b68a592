from __future__ import annotations

import pytest

from tvmbuild.engine import display


def test_a_log_gets_few_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 1000.0
    monkeypatch.setattr("tvmbuild.engine.display.time.monotonic", lambda: now)
    with display.show_progress("tune:a@b") as show:
        for second in range(300):
            now = 1000.0 + second
            show(f"{second} s")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"   tune:a@b  {second} s" for second in (5, 15, 35, 75, 135, 195, 255)]
