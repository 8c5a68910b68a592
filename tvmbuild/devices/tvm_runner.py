"""A package in TVM's runtime, with bound inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvmbuild import load
from tvmbuild.devices.result_fields import list_fields
from tvmbuild.devices.tvm_frames import TvmFrames
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Profile
from tvmbuild.package.runtime.device_errors import EXPLAINED_ERRORS
from tvmbuild.package.runtime.library import num_threads
from tvmbuild.package.runtime.profiler import profile_operators
from tvmbuild.package.runtime.session import Session


class TvmRunner:
    """A package loaded in TVM's runtime. A call does not copy the inputs.

    Raises TvmbuildError if the runtime does not use ``threads`` threads.
    """

    def __init__(self, package: Path, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        self._session = load(package, threads)
        if num_threads() != threads:
            raise TvmbuildError(
                f"TVM's runtime uses {num_threads()} threads, {threads} were asked for",
                f"the process needs TVM_NUM_THREADS={threads}, and its CPU affinity as many cores",
            )
        self._inputs = inputs
        self._call = self._session.bind(inputs)

    @property
    def call(self) -> Callable[[], object]:
        """The function that runs the package once on the bound inputs."""
        return self._call

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Run the package once on the bound inputs and return copies of the outputs by name."""
        return self._session.run(self._inputs)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Run the package once on ``inputs`` and return copies of the outputs by name."""
        return self._session.run(inputs)

    def profile(self, repeat: int, beat: Callable[[], None]) -> Profile:
        """Run the package ``repeat`` times and return the time of each operator, the longest first.

        ``beat`` is called between the runs.
        """
        with EXPLAINED_ERRORS:
            return profile_operators(self._session, self._inputs, repeat, beat)

    def bind_frames(self, frames: Sequence[np.ndarray]) -> TvmFrames:
        """Return the way from these frames, one for each frame of the package, to their results."""
        return TvmFrames(self._at_size(), frames, self._inputs)

    def find_in_outputs(self, score: float | None, overlap: float | None) -> dict[str, list[dict[str, Any]]]:
        """Return the results in the outputs for the bound inputs, those of each kind as maps of their fields."""
        found = self._at_size().make_results(self._session.run(self._inputs), score=score, overlap=overlap)
        return list_fields(found)

    def _at_size(self) -> Session:
        """Return the session of the size of the bound inputs."""
        sizes = self._session.info.sizes
        if sizes is None:
            return self._session
        shapes = {name: value.shape for name, value in self._inputs.items()}
        return self._session.at(sizes.plan(shapes, self._session.info.model).parts[0].function.values)

    def threads(self) -> int:
        """Return the number of threads of the runtime's pool."""
        return num_threads()
