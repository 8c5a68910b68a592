"""Servers and connections that misbehave: the result is a message, never a traceback."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.sources import url as module
from tvmbuild.sources.url import download_url

ANSWERS = {
    "/whole": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nmodel",
    "/short": b"HTTP/1.0 200 OK\r\nContent-Length: 500\r\n\r\nmodel",
    "/chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nmodel",
    "/secret": b"HTTP/1.0 401 Unauthorized\r\n\r\n",
    "/moved": b"HTTP/1.0 302 Found\r\nLocation: /secret\r\n\r\n",
    "/busy": b"HTTP/1.0 503 Busy\r\nRetry-After: 7\r\n\r\n",
    "/noise": b"this is not HTTP\r\n\r\n",
}


WHOLE = bytes(range(256)) * 8


class Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[str | None]] = []
    """The requested parts of `/parts…`."""

    def do_GET(self) -> None:
        if self.path.startswith("/parts"):
            self.send_part()
            return
        login = self.headers["Authorization"] == f"Basic {base64.b64encode(b'user:p@ss').decode()}"
        self.wfile.write(ANSWERS["/whole" if login and self.path == "/secret" else self.path])
        self.close_connection = True

    def send_part(self) -> None:
        """Send at most the next 700 bytes of `/parts`, and all of them after one refusal for `/parts-busy`."""
        part = self.headers["Range"]
        self.asked.append(part)
        self.close_connection = True
        if self.path == "/parts-busy" and len(self.asked) == 1:
            self.wfile.write(b"HTTP/1.0 503 Busy\r\nRetry-After: 0\r\n\r\n")
            return
        start = int(part.removeprefix("bytes=").removesuffix("-")) if part else 0
        if self.path == "/parts-whole":
            start = 0
        if start >= len(WHOLE):
            self.wfile.write(b"HTTP/1.0 416 No\r\nContent-Range: bytes */%d\r\n\r\n" % len(WHOLE))
            return
        first = b"206 Part" if start else b"200 OK"
        rest = WHOLE[start:]
        self.wfile.write(b"HTTP/1.0 %b\r\nContent-Length: %d\r\n" % (first, len(rest)))
        self.wfile.write(
            b"Content-Range: bytes %d-%d/%d\r\n\r\n" % (start, len(WHOLE) - 1, len(WHOLE)) if start else b"\r\n"
        )
        self.wfile.write(rest[:700] if self.path == "/parts" else rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of ANSWERS over plain HTTP, because certificates are not tested here."""
    monkeypatch.setattr(module, "_check_scheme", lambda _url: None)
    monkeypatch.setattr(module, "RETRIES_S", (0.0, 0.0))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


@pytest.fixture
def asked() -> list[str | None]:
    Handler.asked.clear()
    return Handler.asked


def test_a_broken_download_goes_on_where_it_broke(server: str, tmp_path: Path, asked: list[str | None]) -> None:
    assert download_url(f"{server}/parts", tmp_path / "out").read_bytes() == WHOLE
    assert asked == [None, "bytes=700-", "bytes=1400-"]


def test_what_is_there_is_not_asked_for_again(server: str, tmp_path: Path, asked: list[str | None]) -> None:
    (tmp_path / "out").write_bytes(WHOLE[:1500])
    assert download_url(f"{server}/parts", tmp_path / "out").read_bytes() == WHOLE
    assert download_url(f"{server}/parts", tmp_path / "out").read_bytes() == WHOLE
    assert asked == ["bytes=1500-", "bytes=2048-"]


def test_more_than_there_is_is_fetched_again(server: str, tmp_path: Path, asked: list[str | None]) -> None:
    (tmp_path / "out").write_bytes(WHOLE + b"x")
    assert download_url(f"{server}/parts", tmp_path / "out").read_bytes() == WHOLE
    assert asked == ["bytes=2049-", None, "bytes=700-", "bytes=1400-"]


def test_a_server_without_parts_sends_the_whole(server: str, tmp_path: Path, asked: list[str | None]) -> None:
    (tmp_path / "out").write_bytes(b"something else")
    assert download_url(f"{server}/parts-whole", tmp_path / "out").read_bytes() == WHOLE
    assert asked == ["bytes=14-"]


def test_a_busy_server_is_asked_again(server: str, tmp_path: Path, asked: list[str | None]) -> None:
    assert download_url(f"{server}/parts-busy", tmp_path / "out").read_bytes() == WHOLE
    assert asked == [None, None]


def test_waits_grow_and_a_server_may_ask_for_longer_ones(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(module, "RETRIES_S", (1.0, 2.0, 4.0, 8.0))
    monkeypatch.setattr(module, "sleep", waited.append)
    for path, waits in (("/short", [1, 2, 4, 8]), ("/busy", [7, 7, 7, 8]), ("/secret", []), ("/refused", [1, 2, 4, 8])):
        where = f"{server}{path}" if path != "/refused" else "http://127.0.0.1:9/"
        with pytest.raises(TvmbuildError):
            download_url(where, tmp_path / path[1:])
        assert waited == waits, path
        waited.clear()


def test_a_whole_answer(server: str, tmp_path: Path) -> None:
    assert download_url(f"{server}/whole", tmp_path / "out").read_bytes() == b"model"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/short", "gave 5 of 500 bytes, then the connection broke"),
        ("/chunk", "cannot download http"),
        ("/noise", "cannot download http"),
        ("/a space", "cannot download http"),
    ],
)
def test_a_broken_answer_is_told(server: str, tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(TvmbuildError) as caught:
        download_url(server + path, tmp_path / "out")
    assert said in caught.value.message
    assert caught.value.hint


def test_credentials_of_the_url_are_sent_and_never_shown(server: str, tmp_path: Path) -> None:
    secret = server.replace("://", "://user:p%40ss@")
    assert download_url(f"{secret}/secret", tmp_path / "out").read_bytes() == b"model"
    for path, said in (("/moved", "answered 401"), ("/short", "gave 5 of 500"), ("/noise", "cannot download")):
        with pytest.raises(TvmbuildError) as caught:
            download_url(f"{secret}{path}", tmp_path / "out")
        assert said in caught.value.message
        assert server.replace("://", "://***@") in caught.value.message
        assert "p%40ss" not in str(caught.value)
