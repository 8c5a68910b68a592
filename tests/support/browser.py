"""Debian's chromium without a window, driven by its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 60.0
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36}
KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
_Any = TypeVar("_Any")


def find_browser() -> str | None:
    """Return the program; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: WebSocketClientConnection) -> None:
        self._loop, self._connection, self._number = loop, connection, 0
        self.complaints: list[str] = []
        """The warnings and errors on the console, and uncaught exceptions."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Open the address, and wait until it is loaded."""
        self._call("Page.navigate", url="about:blank")  # a change of the fragment alone would load nothing
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str) -> Any:
        """Return the value of the JavaScript expression, as JSON can hold it."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until the expression is true."""
        end = time.monotonic() + LIMIT_S
        while not self.evaluate(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        """Press the keys one after the other: a character, or one of KEYS."""
        for key in keys:
            code = KEYS.get(key, 0)
            text = {"text": "\r" if key == "Enter" else key} if key not in KEYS or key == "Enter" else {}
            self._call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
            self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size in CSS pixels, and the colours that its user prefers."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def forbid_scripts(self, *, forbidden: bool) -> None:
        """Forbid or allow the scripts of pages from now on; `evaluate` always runs."""
        self._call("Emulation.setScriptExecutionDisabled", value=forbidden)

    def list_accessible(self) -> list[dict[str, Any]]:
        """Return the nodes that screen readers see."""
        nodes: list[dict[str, Any]] = self._call("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node["ignored"]]

    def shoot(self, path: Path, *, whole: bool = False) -> None:
        """Write a screenshot, of the whole page or of the window's part."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        return self._wait_for(self._send(self._number, method, parameters))

    def _wait_for(self, work: Coroutine[Any, Any, _Any]) -> _Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, LIMIT_S))

    async def _send(self, number: int, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        await self._connection.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            text = await self._connection.read_message()
            assert text is not None, "the browser has ended"
            message: dict[str, Any] = json.loads(text)
            self._listen(message)
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _listen(self, message: dict[str, Any]) -> None:
        method, told = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])


@contextlib.contextmanager
def started_browser() -> Iterator[Browser]:
    """Yield a browser with an empty page and an empty profile; it ends with the block."""
    program = find_browser()
    assert program is not None
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as stack:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        arguments += ["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]
        arguments += ["--disable-sync", "--disable-quic"]
        command = [program, *arguments, "--remote-debugging-port=0", f"--user-data-dir={folder}/profile", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        port = _wait_for_port(Path(folder) / "profile/DevToolsActivePort")
        connection = loop.run_until_complete(_connect(port))
        stack.callback(connection.close)
        yield Browser(loop, connection)


def _wait_for_port(path: Path) -> int:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(path.read_text().splitlines()[0])
        time.sleep(0.05)
    raise AssertionError("the browser did not start")


async def _connect(port: int) -> WebSocketClientConnection:
    listed = json.loads((await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")).body)
    (page,) = [each for each in listed if each["type"] == "page"]
    return await websocket_connect(page["webSocketDebuggerUrl"], max_message_size=1 << 28)
