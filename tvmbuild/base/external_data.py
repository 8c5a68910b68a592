"""The location of the files that hold an ONNX file's weights."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from tvmbuild.errors import TvmbuildError

_MAX_LINKS = 40
"""The largest number of links to follow: the kernel's limit."""


def locate_external(model: Path, location: str) -> Path:
    """Return the path of the weight file that an ONNX file names as ``location``. The weight file may be missing.

    It is beside the ONNX file or, if the ONNX file is a link, beside the link's destination. In Hugging Face's cache
    both files are links to files with other names, and a user's link may lead anywhere. Raises TvmbuildError if
    ``location`` leaves the folder of the ONNX file, or is an impossible file name.
    """
    shown = repr(location if len(location) <= 60 else f"{location[:57]}…")
    # Paths are compared as text, as ONNX does: `a/../weights` stays inside.
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
