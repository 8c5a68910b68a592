"""The run of the user's own function, which returns a model, in its own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.source_specs import Export, Source
from tvmbuild.sources.fetch import fetch
from tvmbuild.sources.user_process import UserCall, call_user

EXPORTER = "tvmbuild.sources.export_process"
_REMEDIES = (
    "Free memory, or export a smaller model.",
    "Leave out os._exit: the function must return an onnx.ModelProto.",
)


@contextmanager
def obtain_model(source: Source, root: Path) -> Iterator[Path]:
    """Yield the local file of the model of ``source``, which is fetched, or returned by the user's function.

    The file of a returned model is removed when the context ends. A file of another format than ONNX keeps its original
    name. Raises TvmbuildError if the model cannot be fetched, or if the function fails.
    """
    with TemporaryDirectory(prefix="tvmbuild-export-") as folder:
        if source.export is not None:
            yield _export(source, source.export, root, Path(folder))
        elif source.list_readers():
            yield _hand_over(source, root, Path(folder) / "named")
        else:
            yield fetch(source, root)


def _export(source: Source, export: Export, root: Path, folder: Path) -> Path:
    files = {file.name: str(_hand_over(file.source, root, folder / "files" / file.name)) for file in export.files}
    request = {
        "arguments": {name: json.loads(value) for name, value in export.arguments.items()},
        "files": files,
    }
    call = UserCall(EXPORTER, root, source.location, export.function, "model", _REMEDIES)
    return call_user(call, request, folder)


def _hand_over(source: Source, root: Path, folder: Path) -> Path:
    """Return the path of the fetched file under its original name, in ``folder``.

    Some libraries detect a format by the name, and the cache names files by their digests.
    """
    path = fetch(source, root).absolute()
    if source.kind == "path":
        return path
    folder.mkdir(parents=True)
    named = folder / source.name_file()
    named.symlink_to(path)
    return named
