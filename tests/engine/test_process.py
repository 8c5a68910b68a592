"""Ctrl-C between the start of a step's process and the wait for it."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.engine import process


@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_beside_the_start_of_the_reader_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    class Thread(threading.Thread):
        def start(self) -> None:
            if after:
                super().start()
            raise KeyboardInterrupt

    monkeypatch.setattr("tvmbuild.engine.process.subprocess.Popen", Popen)
    monkeypatch.setattr("tvmbuild.engine.process.threading.Thread", Thread)
    options = SimplifyStep("net", Source("path", "net.onnx"), (), SimplifyOptions())
    with pytest.raises(KeyboardInterrupt):
        process.run_process(Step("simplify", "net", options, root=tmp_path))
    (child,) = started
    assert child.returncode is not None
    assert not [each for each in threading.enumerate() if isinstance(each, Thread)]
