from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tvmbuild.benchmarking.machine import Watch
from tvmbuild.benchmarking.results import Machine

SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def watch_a_spinning_process(*, own: bool) -> tuple[Machine, float]:
    """Return what a watch saw while a process took one core, and the share of the cores that this is."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as spinning:
        try:
            time.sleep(0.3)
            watch = Watch([spinning.pid] if own else [])
            time.sleep(1.5)
            machine = watch.read()
        finally:
            spinning.kill()
    return machine, 1 / machine.cores


def test_others_are_noticed_and_own_processes_are_not() -> None:
    machine, _ = watch_a_spinning_process(own=False)
    if machine.others is None:
        pytest.skip("the system does not count CPU time")
    mine, share = watch_a_spinning_process(own=True)
    assert machine.others > 0.3 * share
    assert mine.others is not None
    # The test machine may be busy itself: then both are.
    assert mine.others < machine.others or mine.others > 0.9


def test_our_own_work_is_not_others() -> None:
    watch, end = Watch(), time.monotonic() + 1.0
    while time.monotonic() < end:
        pass
    machine = watch.read()
    assert machine.others is None or machine.others <= 1 - 0.5 / machine.cores


@pytest.mark.parametrize(("others", "busy"), [(None, False), (0.0, False), (0.05, False), (0.06, True), (1.0, True)])
def test_a_busy_machine_is_a_warning(others: float | None, busy: bool) -> None:
    machine = replace(Machine("A CPU", 2), others=others)
    assert (machine.busy is not None) is busy
    if busy:
        assert f"other programs took {others:.0%} of the cores' time" in str(machine.busy)
