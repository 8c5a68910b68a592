"""Any number of threads and streams on one device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest
from vulkan_blob import GROUP
from vulkan_tensors import ScaleAndAdd, download, empty, upload, vulkan_device

from tvmbuild.package.runtime.library import call

pytestmark = pytest.mark.vulkan

COUNT = 2 * GROUP


def test_threads_compute_side_by_side() -> None:
    compute = ScaleAndAdd()
    shared = upload(np.ones(COUNT, "float32"))

    def infer(seed: int) -> float:
        values = np.full(COUNT, seed, "float32")
        a, out = upload(values), empty(COUNT)
        worst = 0.0
        for turn in range(40):
            upload(values + turn, a)
            for _ in range(seed % 7 + 15):
                compute(a, shared, out, 2.0)
            worst = max(worst, float(np.abs(download(out) - (2 * (values + turn) + 1)).max()))
        return worst

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(infer, range(24))) == 0


def test_what_another_thread_launched_comes_first() -> None:
    compute = ScaleAndAdd()
    ones, total = upload(np.ones(COUNT, "float32")), upload(np.zeros(COUNT, "float32"))
    for turn in range(1, 31):
        thread = Thread(target=compute, args=(total, ones, total))
        thread.start()
        thread.join()
        if turn % 3 == 0:
            compute(total, ones, total)
    assert np.array_equal(download(total), np.full(COUNT, 40, "float32"))


def test_more_threads_than_work_queues() -> None:
    compute = ScaleAndAdd()
    ones = upload(np.ones(COUNT, "float32"))

    def infer(seed: int) -> bool:
        out = upload(np.zeros(COUNT, "float32"))
        for _ in range(20):
            compute(out, ones, out)
        return bool(np.array_equal(download(out), np.full(COUNT, 20, "float32"))) or seed < 0

    with ThreadPoolExecutor(80) as pool:
        assert all(pool.map(infer, range(160)))


def test_streams_of_tvms() -> None:
    device = vulkan_device()
    compute = ScaleAndAdd()
    a, out = upload(np.ones(COUNT, "float32")), upload(np.zeros(COUNT, "float32"))
    stream = call("runtime.Device_StreamCreate", device)
    call("runtime.Device_SetStream", device, stream)
    for _ in range(20):
        compute(out, a, out)
    call("runtime.Device_SetStream", device, 0)
    call("runtime.Device_StreamSyncFromTo", device, stream, 0)
    compute(out, a, out)
    call("runtime.Device_StreamSync", device, stream)
    call("runtime.Device_StreamFree", device, stream)
    assert np.array_equal(download(out), np.full(COUNT, 21, "float32"))
