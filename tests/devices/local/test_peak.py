from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tvmbuild.devices.local.peak import (
    best_time,
    choose_bytes,
    last_level_cache_bytes,
    measure_memory,
    measure_peak,
)
from tvmbuild.package.profile import Peak

MIB = 1 << 20


@pytest.mark.parametrize(
    ("cache", "available", "size"),
    [
        (8 * MIB, 64 << 30, 256 * MIB),
        (260 * MIB, 64 << 30, 520 * MIB),
        (260 * MIB, 1 << 30, 256 * MIB),
        (8 * MIB, 0, MIB),
    ],
)
def test_the_array_fits_no_cache_but_memory(cache: int, available: int, size: int) -> None:
    assert choose_bytes(cache, available) == size


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    for index, size in enumerate(("48K\n", "2048K\n", "260M\n", "?\n", "\n")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size)
    assert last_level_cache_bytes(tmp_path) == 260 * MIB
    assert last_level_cache_bytes(tmp_path / "absent") == 32 * MIB


def test_the_shortest_call_after_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = [0.0], iter([0.0, 0.03, 0.01, *[0.02] * 100])

    def pause() -> None:
        clock[0] += next(pauses)

    monkeypatch.setattr("tvmbuild.devices.local.peak.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    assert best_time(pause) == pytest.approx(0.01)


def test_memory_is_read_or_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvmbuild.devices.local.peak.choose_bytes", lambda _cache, _available: 16 * MIB)
    rate, how = measure_memory(2)
    assert rate > 0
    assert how in {"16 MiB read", "16 MiB copied"}


@pytest.mark.compiler
def test_where_there_is_no_compiler_sgemm_stands_in_for_its_kernel() -> None:
    peak = measure_peak(1)
    assert (peak.threads, peak.compute) == (1, "fp32 FMA in registers")
    environment = dict(os.environ, TVM_USE_RUNTIME_LIB="1", OPENBLAS_NUM_THREADS="1", TVM_NUM_THREADS="1")
    command = [sys.executable, "-m", "tvmbuild.devices.local.peak", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    alone = Peak.from_json(json.loads(done.stdout))
    assert alone.compute == "fp32, NumPy's sgemm (a good kernel can exceed it)"
    assert min(peak.gflops, alone.gflops, peak.gb_s, alone.gb_s) > 0
