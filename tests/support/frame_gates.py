"""The gate of frames for a package in this process, whose results a test may distort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest

from tvmbuild.benchmarking.frames.gate import Checked, check_frames
from tvmbuild.devices.model_worker import Worker
from tvmbuild.devices.serve_frames import COMMANDS, FrameCommands
from tvmbuild.devices.tvm_frames import TvmFrames
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session

Fields = list[dict[str, Any]]


def leave(_found: Fields) -> None:
    """Leave results as they are."""


class LocalWorker:
    """A worker whose package runs in this process. ``distort`` may change a command's results."""

    def __init__(self, session: Session, distort: Callable[[Fields], object] = leave) -> None:
        self.session, self.distort = session, distort
        self.commands = FrameCommands(self)

    def bind_frames(self, frames: Sequence[np.ndarray]) -> TvmFrames:
        """Return the session's way from frames to results."""
        return TvmFrames(self.session, frames, {"factor": np.ones(1, np.float32)})

    def ask(self, command: Mapping[str, Any], calls: int = 1) -> dict[str, object]:
        """Obey a command as the process of a worker does."""
        assert calls == 1
        answer = COMMANDS[command["do"]](self.commands, command, lambda: None)
        if "results" in answer:
            for each in cast("dict[str, Fields]", answer["results"]).values():
                self.distort(each)
        return answer


def check(session: Session, distort: Callable[[Fields], object] = leave) -> Checked:
    """Return the gate's outcome for the package of a session."""
    worker = cast("Worker", LocalWorker(session, distort))
    found = check_frames(session.info, worker, "benchmark:net@here")
    assert found is not None
    return found


def refuse(session: Session, distort: Callable[[Fields], object] = leave) -> str:
    """Return the gate's message about distorted results in a frame of 80 by 50 pixels."""
    with pytest.raises(TvmbuildError) as caught:
        check(session, distort)
    assert caught.value.message.startswith("benchmark:net@here: the package makes wrong results (bgr8 [50, 80, 3], ")
    return caught.value.message


def change(place: int, name: str, by: Callable[[Any], Any]) -> Callable[[Fields], None]:
    """Return a distortion that changes a field of one result."""

    def distort(found: Fields) -> None:
        found[place][name] = by(found[place][name])

    return distort
