"""Conversion of errors of a device's runtime into errors with hints for users."""

from __future__ import annotations

import re
from types import TracebackType

from tvmbuild.errors import TvmbuildError

_PREFIXES = ("Vulkan: ", "CUDA: ")
"""The prefixes of the messages of tvmbuild's own runtimes."""
_HINTS = {
    " was lost ": "the system's log (`dmesg`) says why; update the driver if it happens again",
    "its compiler was newer": "update the driver, or build for a target whose `driver` is this driver's version",
    "the kernels are not for": "build for a target with the `arch` of this card",
    "out of memory": "end what else uses the device's memory, or take a smaller batch or `precision: fp16`",
    r"cannot be used \(": "update its driver; TVMBUILD_VULKAN_DEVICE chooses another device",
    "could not compile": "update the driver, or leave out one of its features: TVMBUILD_VULKAN_WITHOUT",
    r"lacks|allows|shared memory|has \d+ bytes|reaches": "build for a target that states what this device has: "
    "`from_device: 0` and `tvmbuild target lock`",
}
"""Regular expression for a part of the message → hint. The first match counts."""


class ExplainedErrors:
    """A context manager that converts errors of tvmbuild's own runtimes into TvmbuildErrors with hints."""

    def __enter__(self) -> None:
        """Do nothing. The object has no state, so it can serve any number of threads."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Raise TvmbuildError if the block raised an error of one of them."""
        if isinstance(error, RuntimeError) and str(error).startswith(_PREFIXES):
            raise explain(error) from error


def explain(error: Exception) -> TvmbuildError:
    """Return a TvmbuildError with the first line of the error's message, and with a hint if one is known."""
    message = str(error).splitlines()[0]
    return TvmbuildError(message, next((hint for part, hint in _HINTS.items() if re.search(part, message)), None))


EXPLAINED_ERRORS = ExplainedErrors()
