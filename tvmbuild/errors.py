"""The one exception that users see: what went wrong, and what to do about it."""

from __future__ import annotations

from tvmbuild.base.masking import mask_credentials


class TvmbuildError(Exception):
    """A mistake or a condition that the user can act on; shown without a traceback.

    ``message`` names the file, line, key or step and the cause; ``hint`` is the remedy, one sentence.
    Credentials in URLs are masked in both. Anything else that is raised is a bug and shows its traceback.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = mask_credentials(message)
        self.hint = hint and mask_credentials(hint)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[type[TvmbuildError], tuple[str, str | None]]:
        """Keep both parts when an error crosses a process boundary (``doit -n 2``)."""
        return (TvmbuildError, (self.message, self.hint))

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class VerdictError(TvmbuildError):
    """What a step has written is right, and says that the build must fail: its outputs stay."""

    def __reduce__(self) -> tuple[type[TvmbuildError], tuple[str, str | None]]:
        """Stay a verdict in another process."""
        return (VerdictError, (self.message, self.hint))
