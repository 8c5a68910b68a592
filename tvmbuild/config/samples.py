"""The real inputs that models.yaml names: globs of pictures, or an .npz."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath, show_value
from tvmbuild.config.named_files import check_file, list_pictures, relative_path

Kind = Literal["images", "inputs"]


def check_samples(document: Document, root: Path, path: KeyPath, own: dict[str, Any]) -> None:
    """Report missing files of real inputs, and pictures for a model without `preprocess`.

    ``path`` leads to the map with `images` or `inputs`. ``own`` is the map of the whole model.
    """
    data: Any = own
    for key in path[2:]:
        data = data.get(key) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not document.is_sound(path):
        return
    required = own.get("enabled", True) is not False
    if "inputs" in data:
        check_file(document, root, (*path, "inputs"), data["inputs"], must_exist=required)
    for index, glob in enumerate(data.get("images", ()) if required else ()):
        if not list_pictures(root, glob):
            document.report((*path, "images", index), f"{show_value(glob)} matches no file", "a glob of pictures")
    if "images" in data and "preprocess" not in own:
        document.report_key((*path, "images"), "the model does not say how a picture becomes its input", "`preprocess`")


def find_samples(root: Path, data: dict[str, Any]) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of real inputs, and the paths of their files relative to the project's root."""
    if "inputs" in data:
        return "inputs", (relative_path(root, data["inputs"]),)
    found = (path for glob in data["images"] for path in list_pictures(root, glob))
    return "images", tuple(dict.fromkeys(found))
