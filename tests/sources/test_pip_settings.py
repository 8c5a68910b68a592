from __future__ import annotations

from pathlib import Path

import pytest

from tvmbuild.sources.pip_settings import PipSettings, parse_pip_settings, read_pip_settings


def test_nothing_configured() -> None:
    assert parse_pip_settings("") == PipSettings()


def test_variables_win_over_sections() -> None:
    lines = [
        ":env:.index-url='https://env.invalid/simple'",
        "download.index-url='https://download.invalid/simple'",
        "global.index-url='https://global.invalid/simple'",
        "global.extra-index-url='https://a.invalid/simple https://b.invalid/simple'",
        "download.cert='/certificates.pem'",
        "global.trusted-host='\\na.invalid\\nb.invalid'",
        "install.no-index='true'",
    ]
    assert parse_pip_settings("\n".join(lines)) == PipSettings(
        index_url="https://env.invalid/simple",
        extra_index_urls=("https://a.invalid/simple", "https://b.invalid/simple"),
        trusted_hosts=("a.invalid", "b.invalid"),
        cert="/certificates.pem",
    )


def test_no_index() -> None:
    settings = parse_pip_settings("global.no-index='yes'\nglobal.find-links='/wheels'")
    assert settings == PipSettings(find_links=("/wheels",), no_index=True)


def test_pip_is_asked_whatever_the_project_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", "/srv/wheels")
    assert read_pip_settings().find_links == ("/srv/wheels",)
