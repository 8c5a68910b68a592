"""Throughput of calls in flight on a GPU, over what its kernels allow: `in_flight.py PACKAGE.tar`.

The ways take turns, and the lines are their medians: only kernels, launched one after another on inputs that stay on
the card; `run`, a call after the other; `submit`, calls in flight. The last two take inputs in the host's memory and
return outputs there, with inputs from `session.empty` (page-locked) and from NumPy (pageable).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tvmbuild
from tvmbuild.package.inputs import make_inputs
from tvmbuild.package.runtime.session import Session

SECONDS, ROUNDS = 0.4, 5


def measure(calls: Callable[[int], None], number: int) -> float:
    """Return the calls in a second."""
    start = time.perf_counter()
    calls(number)
    return number / (time.perf_counter() - start)


def list_ways(session: Session) -> dict[str, Callable[[int], None]]:
    """Return the ways to make a number of calls."""
    pageable = make_inputs(session.inputs, "random")
    locked = {name: session.empty(name) for name in pageable}
    for name, value in locked.items():
        value[...] = pageable[name]
    launch = session._programs.open(None).bind(pageable)  # noqa: SLF001 - `bind` waits in each call

    def kernels(number: int) -> None:
        for _ in range(number):
            launch()
        session.wait()

    def run(number: int) -> None:
        for _ in range(number):
            session.run(locked)

    def submit(inputs: dict[str, np.ndarray]) -> Callable[[int], None]:
        def call(number: int) -> None:
            pending = deque(session.submit(inputs) for _ in range(min(3, number)))
            for _ in range(number - len(pending)):
                pending.append(session.submit(inputs))
                pending.popleft().result()
            for each in pending:
                each.result()

        return call

    return {"kernels": kernels, "run": run, "submit": submit(locked), "submit, pageable": submit(pageable)}


def main() -> None:
    """Print a line for each package and way."""
    for path in sys.argv[1:]:
        with tvmbuild.load(path) as session:
            ways = list_ways(session)
            numbers = {}
            for name, calls in ways.items():
                calls(20)
                numbers[name] = max(20, int(measure(calls, 20) * SECONDS))
            rounds = [{name: measure(calls, numbers[name]) for name, calls in ways.items()} for _ in range(ROUNDS)]
        found = {name: statistics.median(each[name] for each in rounds) for name in ways}
        for name, rate in found.items():
            print(
                f"{Path(path).stem:28s} {name:18s} {rate:8.0f} calls/s  {rate / found['kernels']:.2f} of the kernels'"
            )


if __name__ == "__main__":
    main()
