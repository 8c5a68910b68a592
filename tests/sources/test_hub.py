"""A file of the Hugging Face Hub, from a server on this machine that answers as the Hub does."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import HUB, Source
from tvmbuild.base.specs import ModelSpec
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.stages.simplify import Simplify
from tvmbuild.sources import hub as module
from tvmbuild.sources.fetch import fetch
from tvmbuild.sources.hub import download_hub

CONTENT = b"a model of the Hub"
SHA = hashlib.sha256(CONTENT).hexdigest()
COMMIT = "1" * 40
ASK = """
import json, sys
from pathlib import Path
from tvmbuild.base.source_specs import Source
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.fetch import fetch
try:
    found = fetch(Source("hub", *json.loads(sys.argv[1])), Path("/"))
    print(json.dumps({"content": found.read_text(), "name": found.name}))
except TvmbuildError as error:
    print(json.dumps({"message": error.message, "hint": error.hint}))
"""


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        codes = {"/robots/gone/": "RepoNotFound", "/robots/gated/": "GatedRepo", "/no-rev/": "RevisionNotFound"}
        code = next((code for part, code in codes.items() if part in self.path), None)
        if code is None and not self.path.endswith("/onnx/net.onnx"):
            code = "EntryNotFound"
        self.send_response({"GatedRepo": 403, None: 200}.get(code, 404))
        self.send_header("X-Repo-Commit", COMMIT)
        if code:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
        self.send_header("ETag", f'"{SHA}"')
        body = b"" if code else CONTENT
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def ask(server: str, folder: Path, *source: str | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Fetch in a separate process, because the library reads its variables when it is imported."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", server)
    monkeypatch.setenv("HF_HOME", str(folder / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    done = subprocess.run([sys.executable, "-c", ASK, json.dumps(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.hub
def test_a_file_is_fetched_and_its_digest_checked(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = ask(server, tmp_path, "robots/net", "onnx/net.onnx", SHA, monkeypatch=monkeypatch)
    assert got == {"content": CONTENT.decode(), "name": SHA}
    again = ask("http://127.0.0.1:9", tmp_path, "robots/net", "onnx/net.onnx", SHA, monkeypatch=monkeypatch)
    assert again == got
    other = ask(server, tmp_path, "robots/net", "onnx/net.onnx", "0" * 64, monkeypatch=monkeypatch)
    assert other["message"].startswith(
        f"wrong sha256 of robots/net, file onnx/net.onnx: expected {'0' * 64}, got {SHA}"
    )


@pytest.mark.hub
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (("robots/gone", "onnx/net.onnx", None), "the Hub has no repository robots/gone"),
        (("robots/gated", "onnx/net.onnx", None), "robots/gated is shown only to users"),
        (("robots/net", "net.onnx", None), "robots/net at main has no file net.onnx"),
        (("robots/net", "onnx/net.onnx", "no-rev"), "robots/net has no revision no-rev"),
    ],
)
def test_what_the_hub_has_not_is_told(
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: tuple[str, str, str | None],
    said: str,
) -> None:
    repository, file, revision = source
    got = ask(server, tmp_path, repository, file, SHA, None, revision, monkeypatch=monkeypatch)
    assert got["message"].startswith(said)
    assert got["hint"]


@pytest.mark.hub
def test_a_server_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = ask("http://127.0.0.1:9", tmp_path, "robots/net", "onnx/net.onnx", SHA, monkeypatch=monkeypatch)
    assert got["message"].startswith("cannot download onnx/net.onnx of robots/net: ")
    assert "HF_ENDPOINT" in got["hint"]


def test_without_the_library_the_command_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", refuse)
    with pytest.raises(TvmbuildError) as caught:
        download_hub("robots/net", "net.onnx", None)
    said = "a file of the Hub needs huggingface-hub, which is not installed; `pip install 'tvmbuild[hub]'`"
    assert caught.value.message == said
    model = ModelSpec("net", Source("hub", "robots/net", "net.onnx", SHA))
    explain = Simplify().explain_model
    assert explain(model, Capabilities()) == said
    assert explain(model, Capabilities(versions=FrozenMap({HUB.distributions[0]: "1"}))) is None


def test_a_digest_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError, match="has no sha256"):
        fetch(Source("hub", "robots/net", "net.onnx"), tmp_path)
