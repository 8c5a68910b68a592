"""What a stage's process tells the terminal while it works."""

from __future__ import annotations

from tvmbuild.masking import mask_credentials

PREFIX = "::progress "


def report_progress(text: str) -> None:
    """Show ``text`` (one line) as the step's live state; the parent process reads it from our stdout.

    Credentials in URLs are masked.
    """
    print(f"{PREFIX}{mask_credentials(text)}", flush=True)
