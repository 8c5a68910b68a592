"""Servers and connections that misbehave: the answer is a message, never a traceback."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

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
    "/noise": b"this is not HTTP\r\n\r\n",
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        login = self.headers["Authorization"] == f"Basic {base64.b64encode(b'user:p@ss').decode()}"
        self.wfile.write(ANSWERS["/whole" if login and self.path == "/secret" else self.path])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of ANSWERS; plain HTTP is let through, because a certificate is not what these tests are about."""
    monkeypatch.setattr(module, "_check_scheme", lambda _url: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


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
