"""A package under TVM's runtime, with its inputs bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Profile
from tvmbuild.package.runtime.device_errors import EXPLAINED_ERRORS
from tvmbuild.package.runtime.library import num_threads
from tvmbuild.package.runtime.profiler import profile_operators
from tvmbuild.package.runtime.session import Session


class TvmRunner:
    """A package in TVM's runtime. A call does not copy the inputs. Raises if the number of threads differs."""

    def __init__(self, package: Path, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        self._session = Session(package, threads)
        if num_threads() != threads:
            raise TvmbuildError(
                f"TVM's runtime uses {num_threads()} threads, {threads} were asked for",
                f"the process needs TVM_NUM_THREADS={threads}, and its CPU affinity as many cores",
            )
        self._inputs = inputs
        self._call = self._session.bind(inputs)

    @property
    def call(self) -> Callable[[], object]:
        """Run once."""
        return self._call

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Run once and copy the outputs."""
        return self._session.run(self._inputs)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Run once on other inputs."""
        return self._session.run(inputs)

    def profile(self, repeat: int, beat: Callable[[], None]) -> Profile:
        """Return the time of each operator, the longest first."""
        with EXPLAINED_ERRORS:
            return profile_operators(self._session, self._inputs, repeat, beat)

    def threads(self) -> int:
        """Return the number of threads of the runtime's pool."""
        return num_threads()
