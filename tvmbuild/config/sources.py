"""The conversion of a model's `source` to a Source, with the checks that a schema cannot make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Export, ExportFile, Json, Source
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath
from tvmbuild.config.named_files import check_file, relative_path


def check_source(document: Document, root: Path, path: KeyPath, data: object, *, must_exist: bool) -> None:
    """Report missing files of a source, and a parameter of an export that is given twice."""
    if not isinstance(data, dict) or not document.is_sound(path):
        return
    if "path" in data:
        check_file(document, root, (*path, "path"), data["path"], must_exist=must_exist)
    if "export" in data:
        script, _, _ = data["export"].rpartition(":")
        check_file(document, root, (*path, "export"), script, must_exist=must_exist)
    for name, file in data.get("files", {}).items():
        here = (*path, "files", name)
        if name in data.get("arguments", {}):
            document.report_key(here, "the parameter is also among `arguments`", "each parameter once")
        check_source(document, root, here, file, must_exist=must_exist)


def make_source(root: Path, data: dict[str, Any]) -> Source:
    """Return the Source of a model's `source`, or of an entry of `files`, which differs only in the schema."""
    sha256 = data.get("sha256")
    sha256 = sha256.lower() if sha256 else None
    if "url" in data:
        return Source("url", data["url"], None, sha256)
    if "package" in data:
        return Source("package", data["package"], data["file"], sha256)
    if "hub" in data:
        return Source("hub", data["hub"], data["file"], sha256, revision=data.get("revision"))
    if "export" in data:
        script, _, function = data["export"].rpartition(":")
        return Source("export", relative_path(root, script), export=_make_export(root, function, data))
    return Source("path", relative_path(root, data["path"]), None, sha256)


def _make_export(root: Path, function: str, data: dict[str, Any]) -> Export:
    arguments = sorted(data.get("arguments", {}).items())
    files = sorted(data.get("files", {}).items())
    return Export(
        function=function,
        arguments=FrozenMap((name, Json(canonical_json(value))) for name, value in arguments),
        files=tuple(ExportFile(name, make_source(root, file)) for name, file in files),
    )
