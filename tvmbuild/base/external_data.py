"""Where the files lie that an ONNX file names for its weights."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from tvmbuild.errors import TvmbuildError

_MAX_LINKS = 40
"""As the kernel follows."""


def locate_external(model: Path, location: str) -> Path:
    """Return the file beside the ONNX file, or, where that is a link, beside what it leads to; it may be missing.

    In Hugging Face's cache both are links to files with other names. What a link of the user's own leads to is theirs
    to say; what the ONNX file says must stay inside its folder, TvmbuildError otherwise, or when no file can be called
    so.
    """
    shown = repr(location if len(location) <= 60 else f"{location[:57]}…")
    # Compared as text, as ONNX does: `a/../weights` stays inside.
    if PurePath(location).is_absolute() or PurePath(os.path.normpath(location)).parts[:1] == ("..",):
        raise TvmbuildError(
            f"{model} names external data outside its folder: {shown}",
            "Put the data beside the ONNX file and save the model with a relative path.",
        )
    path = model
    try:
        for _ in range(_MAX_LINKS):
            if (path.parent / location).is_file():
                return path.parent / location
            if not path.is_symlink():
                break
            path = path.parent / path.readlink()
    except OSError as error:
        raise TvmbuildError(
            f"{model} names external data that cannot be read: {shown}: {error.strerror}",
            "Save the model again, with its data under a short name beside it.",
        ) from error
    return model.parent / location
