"""The exceptions that users see. Each names the problem and its remedy."""

from __future__ import annotations

from tvmbuild.base.masking import mask_credentials


def end_sentence(text: str) -> str:
    """Return the text, with a full stop if it has no punctuation at its end."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


class TvmbuildError(Exception):
    """A mistake or a condition that the user can act on, shown without a traceback.

    ``message`` names the file, line, key or step and the cause; ``hint`` is the remedy, one sentence. Credentials in
    URLs are masked in both. Any other exception is a bug and shows its traceback.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = mask_credentials(message)
        self.hint = hint and mask_credentials(hint)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[type[TvmbuildError], tuple[str, str | None]]:
        """Pickle message and hint, so that both survive a process boundary (``doit -n 2``)."""
        return (TvmbuildError, (self.message, self.hint))

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {end_sentence(self.hint)}" if self.hint else self.message


class VerdictError(TvmbuildError):
    """An error of a step that wrote complete outputs, but the contents fail the build. The outputs stay on disk."""

    def __reduce__(self) -> tuple[type[TvmbuildError], tuple[str, str | None]]:
        """Pickle the error as a VerdictError, so that its class survives a process boundary."""
        return (VerdictError, (self.message, self.hint))


class CannotRunError(TvmbuildError):
    """The error for a package that is whole, but made for other hardware than this machine's."""

    def __reduce__(self) -> tuple[type[TvmbuildError], tuple[str, str | None]]:
        """Pickle the error as a CannotRunError, so that its class survives a process boundary."""
        return (CannotRunError, (self.message, self.hint))
