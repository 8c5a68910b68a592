"""The frames of a package on a board without Python: the commands of `devices.serve_frames`, relayed to its program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmbuild.devices.result_fields import list_fields
from tvmbuild.devices.ssh.session import SshSession
from tvmbuild.package.counts import has_counts
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.result_arrays import Placed, read_results

Command = Mapping[str, Any]
Beat = Callable[[], None]


def explain_lack(info: PackageInfo) -> str | None:
    """Return why the program on the board cannot run frames of a package, or None if it can."""
    if not info.frames:
        return "the program on a board without Python makes results of frames alone, and the package takes none"
    if has_counts(info.outputs) and not info.postprocess:
        return "the program on a board without Python takes no frames of a package whose outputs have no fixed length"
    return None


class BoardFrames:
    """The frames that a program on a board holds. The functions in COMMANDS carry out a worker's commands."""

    def __init__(self, session: SshSession, info: PackageInfo, beat: Beat) -> None:
        self._session, self._info, self._beat = session, info, beat

    def bind_frames(self, command: Command) -> dict[str, object]:
        """Send the frames in the command's .npz, which are named by their numbers."""
        with np.load(str(command["inputs"]), allow_pickle=False) as arrays:
            frames = [np.ascontiguousarray(arrays[str(number)]).tobytes() for number in range(len(arrays.files))]
        asked = {"do": "bind_frames", "sizes": [len(each) for each in frames]}
        self._session.ask(asked, self._beat, b"".join(frames))
        return {}

    def compute_frame(self, command: Command) -> dict[str, object]:
        """Write the arrays that are made from a frame to the local .npz that the command names."""
        names = [each.name for each in self._info.outputs]
        keys = ["input", *(f"output:{name}" for name in names)]
        keys += [] if self._info.postprocess else [f"frame:{name}" for name in names]
        arrays: dict[str, Any] = dict(zip(keys, self._receive(command), strict=True))
        np.savez(str(command["path"]), **arrays)
        return {}

    def find_in_frame(self, command: Command) -> dict[str, object]:
        """Return the results in a frame."""
        arrays = self._receive(command)
        return {"results": list_fields(read_results(self._info, Placed(arrays))) if arrays else {}}

    def measure_cost(self, command: Command) -> dict[str, object]:
        """Return the fields of a `Cost`. The program cannot time the results by themselves, and reads no meters."""
        told = self._session.ask(command, self._beat)
        return {**told, "joules": None, "throttled": None, "clock": None}

    def pass_on(self, command: Command) -> dict[str, object]:
        """Pass the command on to the program on the board, and return its answer."""
        return self._session.ask(command, self._beat)

    def _receive(self, command: Command) -> list[np.ndarray]:
        """Return the arrays that the program sends after its answer."""
        forms: Any = self._session.ask(command, self._beat)["arrays"]
        arrays = []
        for form in forms:
            dtype, shape = np.dtype(str(form["dtype"])), [int(size) for size in form["shape"]]
            content = self._session.receive(dtype.itemsize * int(np.prod(shape)))
            arrays.append(np.frombuffer(content, dtype).reshape(shape))
        return arrays


COMMANDS: dict[str, Callable[[BoardFrames, Command], dict[str, object]]] = {
    "bind_frames": BoardFrames.bind_frames,
    "compute_frame": BoardFrames.compute_frame,
    "find_in_frame": BoardFrames.find_in_frame,
    "choose_frame": BoardFrames.pass_on,
    "warm_up_frames": BoardFrames.pass_on,
    "time_frames": BoardFrames.pass_on,
    "cost_of_frames": BoardFrames.measure_cost,
}
"""The commands about frames that a board without Python supports, by the value of the command's key `do`."""
