"""The frames of a package in TVM's runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.devices.result_fields import list_fields
from tvmbuild.package.frames import list_others
from tvmbuild.package.results import Results
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.tensors import empty_array


class TvmFrames:
    """A session with frames that its calls take without a copy. ``inputs`` are those beside the picture."""

    def __init__(self, session: Session, frames: Sequence[np.ndarray], inputs: Mapping[str, Any] | None = None) -> None:
        self._session = session
        others = list_others(session.info)
        self._others = {each.name: (inputs or {})[each.name] for each in others}
        (self._picture,) = (each.name for each in session.inputs if each not in others)
        self._frames = [_align(frame) for frame in frames]
        self._chosen: tuple[int, float | None, float | None] = (0, None, None)
        self.on_card = session.info.target.kind == "cuda"

    def choose(self, number: int, score: float | None, overlap: float | None) -> None:
        """Choose the frame and the thresholds of `call` and `list_parts`."""
        self._chosen = (number, score, overlap)

    def compute(self, number: int) -> dict[str, np.ndarray]:
        """Return the input that is made from a frame, and the network's outputs for it."""
        prepared = self._prepare(number)
        outputs = self._session.run({self._picture: prepared, **self._others})
        arrays = {"input": prepared, **{f"output:{name}": value for name, value in outputs.items()}}
        if not self._session.info.postprocess:
            found = self._run(number, None, None)
            arrays |= {f"frame:{name}": value for name, value in found.items()} if isinstance(found, dict) else {}
        return arrays

    def find(self, number: int, score: float | None, overlap: float | None) -> dict[str, list[dict[str, Any]]]:
        """Return the results in a frame, those of each kind as maps of their fields."""
        return list_fields(self._run(number, score, overlap))

    def call(self) -> object:
        """Make the result of the chosen frame."""
        return self._run(*self._chosen)

    def list_parts(self) -> Mapping[str, Callable[[], object]]:
        """Return name of a part → a function that does this part only."""
        session, (number, score, overlap) = self._session, self._chosen
        inputs = {self._picture: self._prepare(number), **self._others}
        parts: dict[str, Callable[[], object]] = {"prepare": lambda: self._prepare(number)}
        parts["network"] = session.bind(inputs)
        if session.info.postprocess:
            outputs = session.run_on_device(inputs)
            parts["result"] = lambda: session.make_results(outputs, score=score, overlap=overlap)
        return parts

    def _prepare(self, number: int) -> np.ndarray:
        return self._session.prepare_frame(self._frames[number], self._session.info.frames[number].encoding)

    def _run(self, number: int, score: float | None, overlap: float | None) -> Results | dict[str, np.ndarray]:
        encoding = self._session.info.frames[number].encoding
        return self._session.run_frame(
            self._frames[number], encoding, inputs=self._others, score=score, overlap=overlap
        )


def _align(frame: np.ndarray) -> np.ndarray:
    aligned = empty_array(frame.shape, "uint8")
    aligned[...] = frame
    return aligned
