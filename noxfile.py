"""The tests on every Python that tvmbuild is for and that this machine has: `nox`, or `nox -s tests-3.13 -- -x`."""

from __future__ import annotations

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["tests"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run README's test command."""
    session.install("--editable", ".[dev]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Run the linters."""
    session.install("--editable", ".[dev]")
    for command in ("ruff check .", "ruff format --check .", "mypy", "lint-imports"):
        session.run(*command.split())
