"""The user's metric in its own process: ``python -m tvmbuild.benchmarking.metric_process FOLDER``.

FOLDER contains the request, under the name in `tvmbuild.sources.user_process`, and the outputs of sample 0 as `0.npz`.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.user_answer import answer

WHERE = "under the model's `accuracy:` in models.yaml"
Outputs = dict[str, np.ndarray]


def main(folder: Path) -> int:
    """Call the function of the request. Return 0 after writing its number, or 1 after writing the error."""
    return answer(folder, lambda function, request: _measure(function, request, folder), "metric", WHERE)


class _Outputs(Sequence[Outputs]):
    """The outputs of all samples, which are loaded when they are asked for, because together they may exceed memory."""

    def __init__(self, folder: Path, names: Sequence[str], count: int) -> None:
        self._folder, self._names, self._count = folder, names, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Outputs: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outputs]: ...
    def __getitem__(self, index: int | slice) -> Outputs | list[Outputs]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        place = range(self._count)[index]
        with np.load(self._folder / f"{place}.npz", allow_pickle=False) as arrays:
            return {name: arrays[f"output {number}"] for number, name in enumerate(self._names)}

    def __iter__(self) -> Iterator[Outputs]:
        return (self[index] for index in range(self._count))


def _measure(function: Callable[..., Any], request: dict[str, Any], folder: Path) -> bytes:
    shown, samples = f"{request['script']}:{request['function']}", request["samples"]
    arguments: list[Any] = [_Outputs(folder, request["outputs"], len(samples)), samples]
    arguments += [] if request["truths"] is None else [Path(request["truths"])]
    _check_arguments(function, arguments, shown)
    found = function(*arguments)
    try:
        value = float(found)
    except (TypeError, ValueError) as error:
        kind = type(found).__name__
        raise TvmbuildError(f"{shown} returned {kind}, not a number", "Return one float: more is better.") from error
    if not math.isfinite(value):
        raise TvmbuildError(f"{shown} returned {value}", "Return a finite number, such as 0 for no hit.")
    return json.dumps(value).encode()


def _check_arguments(function: Callable[..., Any], arguments: list[Any], shown: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a C function: the call will show the error
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        given = "(outputs, samples)" if len(arguments) == 2 else "(outputs, samples, truths)"
        raise TvmbuildError(
            f"{shown}{signature} cannot be called with {given}: {error}",
            "The third argument is the path that `truths:` names; without `truths:` there are two.",
        ) from error


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
