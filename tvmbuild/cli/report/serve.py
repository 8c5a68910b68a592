"""A server of the report for browsers on this machine. It rebuilds the page when a file that it shows has changed."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tvmbuild.base.files import identify
from tvmbuild.base.layout import MODELS_YAML, TARGETS_YAML, Layout
from tvmbuild.base.steps import Settings
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.project import load_plan
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.html_page import write_html

LOOPBACK = "127.0.0.1"
PAGE, STAMP = "/build/report.html", "/stamp"
"""The paths of the page and of its stamp. The page has the path of its file, so that links in it stay correct."""
JOURNALS_S = 30
RECORD = re.compile(r"/records/[a-z0-9][a-z0-9_.-]*/[0-9a-f]{16}\.json")


class LiveReport:
    """The report page of a project, made from the files as they are now."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._lock = plan, threading.Lock()
        self._configured = _stamp(self._list_configuration())
        self._made: tuple[str, bytes] | None = None

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self._plan.root

    def stamp(self) -> str:
        """Return a text that changes with every file that the page shows. Reload the plan if the YAML changed."""
        with self._lock:
            configured = _stamp(self._list_configuration())
            if configured != self._configured:
                self._configured = configured
                try:
                    self._plan = load_plan(self.root, Settings())
                except TvmbuildError as error:  # the page keeps its old content; doit reports the same error
                    print(f"error: {error}")
            shown = f"{self._configured} {_stamp(self._list_shown())} {_stamp_journals(self.root)}"
            return hashlib.sha256(shown.encode()).hexdigest()[:16]

    def page(self) -> bytes:
        """Return the page, rebuilt if its stamp has changed."""
        stamp = self.stamp()
        with self._lock:
            if self._made is None or self._made[0] != stamp:
                cells = collect_cells(self.root, self._plan.steps)
                self._made = stamp, write_html(cells, stamp).encode()
            return self._made[1]

    def _list_configuration(self) -> list[Path]:
        return [self.root / MODELS_YAML, self.root / TARGETS_YAML]

    def _list_shown(self) -> Iterable[Path]:
        layout = Layout(self.root)
        yield from (layout.history, layout.peaks)
        for step in self._plan.steps:
            yield layout.failure(step.id)
            yield from step.outputs.values()


def _stamp(paths: Iterable[Path]) -> str:
    """Return a text that changes when one of the files changes, appears or disappears."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path} {_identify(path)}\n".encode())
    return digest.hexdigest()


def _stamp_journals(root: Path) -> str:
    """Return a text that changes with the journals of running searches, at most once in JOURNALS_S seconds.

    A journal grows with each measurement, and rebuilding the page takes time from the cores that measure.
    """
    journals = sorted(Layout(root).journals.glob("*/*.jsonl"))
    found = ((path.name, _identify(path)) for path in journals)
    return str([(name, identity[2] // (JOURNALS_S * 10**9)) for name, identity in found if identity])


def _identify(path: Path) -> tuple[int, ...] | None:
    try:
        return identify(path)
    except OSError:
        return None


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "tvmbuild"

    def do_GET(self) -> None:
        """Answer with the page, its stamp, or a record file. Nothing else on the disk can be read."""
        path = self.path.partition("?")[0]
        if self.headers.get("Host") not in self.server.names:  # another site, whose name was bound to this address
            self.send_error(HTTPStatus.FORBIDDEN)
        elif path == "/":
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", PAGE)
            self.end_headers()
        elif path == PAGE:
            self._send("text/html; charset=utf-8", self.server.report.page())
        elif path == STAMP:
            self._send("text/plain", self.server.report.stamp().encode())
        elif RECORD.fullmatch(path) and (file := self.server.report.root / path[1:]).is_file():
            self._send("application/json", file.read_bytes())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, *_: object) -> None:
        """Log nothing, because a page asks every two seconds."""

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """A server of a report on the loopback address."""

    daemon_threads = True

    def __init__(self, report: LiveReport, port: int) -> None:
        self.report = report
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            message = f"port {port} cannot be used: {error}"
            raise TvmbuildError(message, "Leave out --port: any free one does.") from error
        self.names = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{LOOPBACK}:{self.server_port}/"


def serve(plan: Plan, port: int, show: Callable[[str], None] | None) -> int:
    """Serve the report until Ctrl-C, and return 0. ``show``, if not None, is called with the page's address."""
    with Server(LiveReport(plan), port) as server:
        print(f"{server.url}  the report as the files are, for this machine alone; Ctrl-C ends it", flush=True)
        if show is not None:
            show(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
