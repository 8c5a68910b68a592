from __future__ import annotations

import time
from concurrent.futures import Future

import psutil
import pytest
from rpc_boards import wait_until

from tvmbuild.base.host_cpu import available_cores

pytestmark = pytest.mark.compiler


def list_children() -> list[psutil.Process]:
    """Return this process's children, including those whose exit code nobody has read."""
    return psutil.Process().children()


def test_a_pool_ends_at_once_and_leaves_no_process() -> None:
    """It does not wait for its processes' work, and a later test finds no zombies of them."""
    from tvmbuild.devices.candidate_timer import start_pool

    before = set(list_children())
    pool = start_pool(range(available_cores()), 2, 300)
    jobs: list[Future[None]] = [pool.submit(time.sleep, 300) for _ in range(4)]
    wait_until(lambda: sum(job.running() for job in jobs) == 2 and len(set(list_children()) - before) == 2)
    time.sleep(0.5)
    start = time.monotonic()
    pool.shutdown()
    assert time.monotonic() - start < 20
    assert not set(list_children()) - before
    assert [job.cancelled() for job in jobs] == [False, False, True, True]
    assert all(isinstance(job.exception(), ChildProcessError) for job in jobs[:2])


def test_a_process_that_is_replaced_leaves_no_zombie() -> None:
    from tvmbuild.devices.candidate_timer import start_pool

    before = set(list_children())
    pool = start_pool(range(available_cores()), 1, 1)
    with pytest.raises(TimeoutError):
        pool.submit(time.sleep, 300).result()
    assert not set(list_children()) - before
    assert pool.submit(abs, -1).result() == 1
    pool.shutdown()
    assert not set(list_children()) - before
