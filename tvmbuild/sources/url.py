"""Download one file over https (or copy one from file://)."""

from __future__ import annotations

import base64
import errno
import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tvmbuild.base.pace import Pace
from tvmbuild.errors import TvmbuildError

MAX_BYTES = 4 << 30
TIMEOUT_S = 60.0
_MB = 1_000_000
_BLOCK = 1 << 20


def download_url(url: str, path: Path) -> Path:
    """Write what ``url`` (https or file) answers to ``path``; TvmbuildError when it cannot be had."""
    _check_scheme(url)
    request = _make_request(url)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme is checked
            _check_scheme(answer.geturl())
            announced = answer.headers.get("Content-Length")
            _copy(answer, path, url, announced)
            _check_length(announced, path, url)
    except urllib.error.HTTPError as error:
        raise TvmbuildError(f"{url} answered {error.code} {error.reason}", "check the URL in models.yaml") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise  # our own disk, not the network
        reason = error.reason if isinstance(error, urllib.error.URLError) else str(error) or type(error).__name__
        raise TvmbuildError(
            f"cannot download {url}: {reason}",
            "check the URL and the network (a proxy is read from HTTPS_PROXY), or use a local file with `path:`",
        ) from error
    return path


def _make_request(url: str) -> urllib.request.Request:
    """Return a request that sends `user:token@` as Basic authentication, but not to where the answer redirects."""
    parts = urlsplit(url)
    user_info, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked
        parts._replace(netloc=host).geturl(), headers={"User-Agent": "tvmbuild"}
    )
    if user_info:
        encoded = base64.b64encode(unquote(user_info).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    return request


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme not in ("https", "file"):
        raise TvmbuildError(f"the URL {url} is neither https nor file", "use an https URL in models.yaml")


def _check_length(announced: str | None, path: Path, url: str) -> None:
    """Say that a connection broke: http.client does not, and a wrong digest would hint at another remedy."""
    got = path.stat().st_size
    if announced is not None and announced.isdigit() and int(announced) != got:
        raise TvmbuildError(f"{url} gave {got} of {announced} bytes, then the connection broke", "try again")


def _copy(answer: object, path: Path, url: str, announced: str | None) -> None:
    known = announced is not None and announced.isdigit()
    pace = Pace(f"downloading {url}", int(announced or 0) / _MB if known else None, "MB")
    total = 0
    reported = 0
    read = answer.read  # type: ignore[attr-defined]  # typeshed gives urlopen no useful type
    with path.open("wb") as out:
        while block := read(_BLOCK):
            total += len(block)
            if total > MAX_BYTES:
                raise TvmbuildError(
                    f"{url} is larger than {MAX_BYTES >> 30} GiB", "models that large are not supported"
                )
            out.write(block)
            if total - reported >= 16 * _BLOCK:
                reported = total
                pace.report(total / _MB)
