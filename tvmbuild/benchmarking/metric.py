"""The user's metric, for example a mean average precision: a Python function of the outputs of all samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tvmbuild.base.specs import Metric
from tvmbuild.sources.user_process import UserCall, call_user

PROCESS = "tvmbuild.benchmarking.metric_process"
_REMEDIES = (
    "Free memory, or read the outputs one after the other: they are loaded when they are asked for.",
    "Leave out os._exit: the function must return a number.",
)


class MetricRun:
    """The outputs of one model on all samples, in files until `compute` calls the user's function with them."""

    def __init__(self, metric: Metric, root: Path, folder: Path) -> None:
        """Prepare for the metric of the project at ``root``. The outputs are written into the empty ``folder``."""
        self._metric, self._root, self._folder = metric, root, folder
        self._names: list[str] = []
        self._outputs: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, outputs: Mapping[str, np.ndarray]) -> None:
        """Keep the outputs (name → array) of the sample ``name``."""
        arrays = {f"output {index}": np.asarray(value) for index, value in enumerate(outputs.values())}
        np.savez(self._folder / f"{len(self._names)}.npz", **arrays)  # type: ignore[arg-type]
        self._names.append(name)
        self._outputs = list(outputs)

    def compute(self) -> float:
        """Return the function's number. Raises TvmbuildError if the function fails or returns something else."""
        metric = self._metric
        call = UserCall(PROCESS, self._root, metric.script, metric.function, "number", _REMEDIES)
        request = {"samples": self._names, "outputs": self._outputs, "truths": metric.truths}
        return float(json.loads(call_user(call, request, self._folder).read_text(encoding="utf-8")))
