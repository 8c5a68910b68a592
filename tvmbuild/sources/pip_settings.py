"""The package indexes that the user's pip uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tvmbuild.base.processes import run_module


@dataclass(frozen=True)
class PipSettings:
    """The part of pip's configuration that says where distributions are and how to reach them."""

    index_url: str | None = None
    """The URL of the index, or None for the default of the tool that downloads."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    no_index: bool = False
    cert: str | None = None


def read_pip_settings() -> PipSettings:
    """Return the settings that pip itself reports from its files and PIP_* variables, in pip's own precedence."""
    done = run_module("pip", "--disable-pip-version-check", "config", "list")
    return parse_pip_settings(done.stdout)


def parse_pip_settings(listing: str) -> PipSettings:
    """Parse the output of ``pip config list``, whose lines have the form ``section.name='value'``.

    A variable overrides the section `download`, which overrides the section `global`.
    """
    values: dict[str, str] = {}
    for section in ("global.", "download.", ":env:."):
        for line in listing.splitlines():
            key, _, literal = line.partition("=")
            if key.startswith(section):
                values[key.removeprefix(section).replace("_", "-")] = str(ast.literal_eval(literal))
    return PipSettings(
        index_url=values.get("index-url") or None,
        extra_index_urls=tuple(values.get("extra-index-url", "").split()),
        find_links=tuple(values.get("find-links", "").split()),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        no_index=values.get("no-index", "").lower() in ("1", "true", "yes", "on"),
        cert=values.get("cert") or None,
    )
