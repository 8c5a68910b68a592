"""The download of one file over https (or its copy from file://), continued after a broken connection."""

from __future__ import annotations

import base64
import errno
import http.client
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import unquote, urlsplit

from tvmbuild.base.pace import Pace
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import TvmbuildError

MAX_BYTES = 4 << 30
TIMEOUT_S = 60.0
RETRIES_S = (1.0, 2.0, 4.0, 8.0)
"""The seconds to wait before each further try. After a try that received new bytes, the list starts again."""
LONGEST_WAIT_S = 60.0
"""The longest wait that a server may request, in seconds."""
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""The HTTP status codes of failures that may be over soon."""
_MB = 1_000_000
_BLOCK = 1 << 20


class _BrokenError(Exception):
    """The error of a download that ended early and may be tried again after ``wait_s`` seconds or more."""

    def __init__(self, error: TvmbuildError, wait_s: float = 0.0) -> None:
        super().__init__(error.message)
        self.error, self.wait_s = error, wait_s


def download_url(url: str, path: Path) -> Path:
    """Write the content of ``url`` (https or file) to ``path``, and return ``path``.

    If ``path`` has bytes already, they count as the beginning of the content, and only the rest is requested. The
    caller must check a digest. Raises TvmbuildError if the content cannot be downloaded.
    """
    _check_scheme(url)
    failed = most = 0
    while (broken := _try(url, path)) is not None:
        if _size(path) > most:
            failed, most = 0, _size(path)
        if failed == len(RETRIES_S):
            raise broken.error from broken.__cause__
        wait_s = max(RETRIES_S[failed], broken.wait_s)
        report_progress(f"{broken.error.message}; trying again in {wait_s:g} s")
        sleep(wait_s)
        failed += 1
    return path


def _try(url: str, path: Path) -> _BrokenError | None:
    try:
        _download(url, path)
    except _BrokenError as broken:
        return broken
    return None


def _download(url: str, path: Path) -> None:
    """Request the missing part once. Raises _BrokenError if a later try may succeed, otherwise TvmbuildError."""
    have = _size(path)
    try:
        with urllib.request.urlopen(_make_request(url, have), timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme is checked
            _check_scheme(answer.geturl())
            have = have if _goes_on(answer, have) else 0
            announced = answer.headers.get("Content-Length")
            total = have + int(announced) if announced is not None and announced.isdigit() else None
            _copy(answer, path, url, have, total)
            _check_length(total, path, url)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            if error.headers.get("Content-Range") != f"bytes */{have}":  # otherwise the file was complete
                path.unlink()
                _download(url, path)
            return
        said = TvmbuildError(f"{url} answered {error.code} {error.reason}", "check the URL in models.yaml")
        if error.code in PASSING:
            raise _BrokenError(said, _asked_wait(error)) from error
        raise said from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise  # our own disk, not the network
        reason = error.reason if isinstance(error, urllib.error.URLError) else str(error) or type(error).__name__
        said = TvmbuildError(
            f"cannot download {url}: {reason}",
            "check the URL and the network (a proxy is read from HTTPS_PROXY), or use a local file with `path:`",
        )
        lasting = urlsplit(url).scheme == "file" or isinstance(error, (ValueError, http.client.InvalidURL))
        if lasting or "CERTIFICATE_VERIFY_FAILED" in str(reason):
            raise said from error
        raise _BrokenError(said) from error


def _make_request(url: str, have: int = 0) -> urllib.request.Request:
    """Return a request for ``url`` from the byte ``have`` on.

    `user:token@` in the URL is sent as Basic authentication, but not to the address of a redirect.
    """
    parts = urlsplit(url)
    user_info, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked
        parts._replace(netloc=host).geturl(), headers={"User-Agent": "tvmbuild"}
    )
    if user_info:
        encoded = base64.b64encode(unquote(user_info).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    if have:
        request.add_header("Range", f"bytes={have}-")
    return request


def _goes_on(answer: Any, have: int) -> bool:
    """Return whether the answer is the requested rest. If not, it is the whole file."""
    started = str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-")
    return bool(have) and answer.status == HTTPStatus.PARTIAL_CONTENT and started


def _asked_wait(error: urllib.error.HTTPError) -> float:
    asked = str(error.headers.get("Retry-After", ""))
    return min(float(asked), LONGEST_WAIT_S) if asked.isdigit() else 0.0


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme not in ("https", "file"):
        raise TvmbuildError(f"the URL {url} is neither https nor file", "use an https URL in models.yaml")


def _check_length(announced: int | None, path: Path, url: str) -> None:
    """Raise _BrokenError if the file does not have the announced length, because the connection broke.

    http.client does not report that, and the error of a wrong digest would suggest another remedy.
    """
    got = _size(path)
    if announced is not None and announced != got:
        said = f"{url} gave {got} of {announced} bytes, then the connection broke"
        raise _BrokenError(TvmbuildError(said, "try again"))


def _copy(answer: Any, path: Path, url: str, have: int, announced: int | None) -> None:
    pace = Pace(f"downloading {url}", None if announced is None else announced / _MB, "MB")
    total = reported = have
    with path.open("ab" if have else "wb") as out:
        while block := answer.read(_BLOCK):
            total += len(block)
            if total > MAX_BYTES:
                raise TvmbuildError(
                    f"{url} is larger than {MAX_BYTES >> 30} GiB", "models that large are not supported"
                )
            out.write(block)
            if total - reported >= 16 * _BLOCK:
                reported = total
                pace.report(total / _MB)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
