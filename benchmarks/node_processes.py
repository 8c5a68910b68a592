"""Node cases in separate processes, so that a crash or an endless loop becomes a verdict."""

from __future__ import annotations

import importlib
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import cast

from node_cases import NodeCase, Verdict, run_case

TIMEOUT_S = 120
_FOR_ALL_CHILDREN = (
    "onnx.reference",
    "onnxsim",
    "tvmbuild.compiler.evaluate",
    "tvmbuild.compiler.importing.importer",
    "tvmbuild.preparing.onnx_graph",
)


def run_apart(case: NodeCase, run: Callable[[NodeCase], Verdict] = run_case, timeout_s: float = TIMEOUT_S) -> Verdict:
    """Run `run_case` in a forked child; a crash or an endless loop is a verdict."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(case, run, writing)
    os.close(writing)
    data, ended = _read(reading, time.monotonic() + timeout_s)
    os.close(reading)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return Verdict("crashed", f"no end in {timeout_s:g} s")
    if not data:
        return Verdict("crashed", f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "no answer")
    return cast("Verdict", pickle.loads(data))  # noqa: S301 - our own child's


def _answer(case: NodeCase, run: Callable[[NodeCase], Verdict], writing: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        os.write(writing, pickle.dumps(run(case)))
    finally:
        sys.stdout.flush()
        os._exit(0)


def _read(reading: int, deadline: float) -> tuple[bytes, bool]:
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            continue
        part = os.read(reading, 1 << 16)
        if not part:
            return data, True
        data += part
    return data, False


def load_for_children() -> None:
    """Import once the modules that each child of `run_apart` needs."""
    for module in _FOR_ALL_CHILDREN:
        importlib.import_module(module)
