from __future__ import annotations

import pytest

from tvmbuild.base.progress import PREFIX, only_progress_printed, progress_shown_by, report_progress


def test_of_a_loud_library_only_progress_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with only_progress_printed():
        print("an advertisement")
        report_progress("half of it is done")
    report_progress("all of it is done")
    assert capsys.readouterr().out == f"{PREFIX}half of it is done\n{PREFIX}all of it is done\n"


def test_who_shows_progress_goes_on_showing_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    with progress_shown_by(shown.append), only_progress_printed():
        report_progress("from https://user:secret@example.org/model")
    (text,) = shown
    assert "example.org" in text
    assert "secret" not in text
    assert capsys.readouterr().out == ""
