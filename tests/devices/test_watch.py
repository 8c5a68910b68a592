from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.watch import Watch

SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def test_others_are_noticed_and_own_processes_are_not() -> None:
    """Two watches see the same second; one of them counts the spinning process as its own."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as spinning:
        try:
            time.sleep(0.3)
            watches = (Watch(), Watch([spinning.pid]))
            time.sleep(1.5)
            stranger, own = (watch.read() for watch in watches)
        finally:
            spinning.kill()
    if stranger.others is None or own.others is None:
        pytest.skip("the system does not count CPU time")
    assert stranger.others - own.others > 0.1 / stranger.cores


def test_our_own_work_is_not_others() -> None:
    """Two watches see the same time; one of them does not know this process as its own."""
    blind, watch, end = Watch(), Watch(), time.process_time() + 0.5
    blind._own = ()
    blind._start = (*blind._start[:2], 0.0)
    while time.process_time() < end:
        pass
    own, all_ = watch.read(), blind.read()
    if own.others is None or all_.others is None:
        pytest.skip("the system does not count CPU time")
    assert own.others < all_.others


@pytest.mark.parametrize(("others", "busy"), [(None, False), (0.0, False), (0.05, False), (0.06, True), (1.0, True)])
def test_a_busy_machine_is_a_warning(others: float | None, busy: bool) -> None:
    machine = replace(MachineState("A CPU", 2), others=others)
    assert (machine.busy is not None) is busy
    if busy:
        assert f"other programs took {others:.0%} of the cores' time" in str(machine.busy)
