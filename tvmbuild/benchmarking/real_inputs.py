"""The real inputs of a model in memory, and models that run on several of them at once.

A search judges dozens of models on the same samples. Of the 9.3 s that one set of operators of yolox_nano took with 64
pictures, ONNX Runtime ran the network for 5.2, reading the pictures took 2.3, and the metric 1.6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from tvmbuild.base.host_cpu import available_cores
from tvmbuild.preparing.reference import OnnxRun

Arrays: TypeAlias = Mapping[str, np.ndarray]
Named: TypeAlias = tuple[str, Arrays]
REMEMBERED = 512 * 2**20
"""The most bytes of inputs, and of a model's outputs, that are kept for the next model."""


class RememberedSamples:
    """Samples that are read once if they fit into memory, and otherwise by each walk through them."""

    def __init__(self, read: Callable[[], Iterator[Named]]) -> None:
        """Prepare for the function that reads them, each with its name."""
        self._read = read
        self._known: list[Named] | None = None

    def __iter__(self) -> Iterator[Named]:
        """Return the samples, from the first one."""
        return iter(self._known) if self._known is not None else self._walk()

    def _walk(self) -> Iterator[Named]:
        seen, size = list[Named](), 0
        for name, inputs in self._read():
            size += sum(each.nbytes for each in inputs.values())
            if size <= REMEMBERED:
                seen.append((name, inputs))
            yield name, inputs
        if size <= REMEMBERED:
            self._known = seen


def run_each(samples: Iterable[Named], run: Callable[[Arrays], Arrays]) -> Iterator[tuple[str, Arrays, Arrays]]:
    """Yield the name, the inputs and the outputs of each sample in their order.

    ONNX Runtime runs as many samples at once as there are cores, each on one thread, which changes no number. A package
    has its device for itself, and runs one after the other.
    """
    if not isinstance(run, OnnxRun):
        yield from ((name, inputs, run(inputs)) for name, inputs in samples)
        return
    waiting: deque[tuple[str, Arrays, Future[dict[str, np.ndarray]]]] = deque()
    with ThreadPoolExecutor(available_cores()) as pool:
        for name, inputs in samples:
            waiting.append((name, inputs, pool.submit(run, inputs)))
            if len(waiting) > available_cores():
                yield _take(waiting)
        while waiting:
            yield _take(waiting)


def _take(waiting: deque[tuple[str, Arrays, Future[dict[str, np.ndarray]]]]) -> tuple[str, Arrays, Arrays]:
    name, inputs, future = waiting.popleft()
    return name, inputs, future.result()
