"""How an error ends doit itself: doit shows the traceback of any exception except this one."""

from __future__ import annotations

from tvmbuild.errors import TvmbuildError


def end_run(error: TvmbuildError) -> SystemExit:
    """Return what ends the process with the message on stderr and exit code 1."""
    return SystemExit(f"error: {error}")
