"""The output of `tvmbuild run --profile` for a GPU's kernels, from made-up times."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tvmbuild.base.console import make_console
from tvmbuild.cli.run.measure import Measurement, add_profile
from tvmbuild.cli.run.output import print_profile, profile_json
from tvmbuild.devices.model_worker import Worker
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget
from tvmbuild.package.operator_info import OperatorInfo
from tvmbuild.package.profile import GraphTime, OperatorRow, Peak, Profile
from tvmbuild.package.timing import summarize

CONV = OperatorRow("fused_conv2d_add", "conv2d_add", "0123456789abcdef", 2, 100.0, 0.8, 10**9, 10**8, covered=True)
RELU = OperatorRow("relu", "relu", "fedcba9876543210", 1, 25.0, 0.2, 10**6, 10**7, covered=False)
OPERATORS = tuple(OperatorInfo(row.function, row.name, str(row.key), 1, 1, covered=True) for row in (CONV, RELU))
INFO = PackageInfo(
    "net", PackageTarget("h200", "cuda"), (), (), "lifted", PackageCoverage(2, 1), "NCHW", operators=OPERATORS
)
GRAPH = GraphTime(2, 118.5, 131.25)
MEASURED = Measurement("a card", 2, summarize([0.15, 0.15], 1))


class Fake:
    """A worker that answers with a profile."""

    threads = 2

    def __init__(self, profile: Profile) -> None:
        self.told = profile

    def profile(self, repeat: int) -> Profile:
        assert repeat == 2
        return self.told

    def pause(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def profiled(profile: Profile) -> Measurement:
    return add_profile(cast("Worker", Fake(profile)), MEASURED, None)


def test_each_kernel_has_a_row_and_the_graph_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    measurement = profiled(Profile((CONV, RELU), "device", GRAPH))
    print_profile(make_console(), INFO, measurement)
    printed = capsys.readouterr().out.splitlines()
    (row,) = (line.split() for line in printed if line.startswith("conv2d_add"))
    assert row == ["conv2d_add", "01234567", "2", "100.0", "80.0%", "10000.0", *["-"] * 3, "yes"]
    assert printed[-3:] == [
        "every operator ran on the cuda device",
        "timed by the cuda device; what the latency has beyond the sum is launching and waiting",
        "CUDA graph: 2 kernels, 118.5 µs in all; 131.2 µs from where the first begins to where the last ends",
    ]
    value = profile_json(INFO, measurement)
    assert value["graph"] == {"kernels": 2, "sum_us": 118.5, "us": 131.25}
    assert value["clock"] == "device"
    assert value["size"] is None


def test_shares_of_the_cards_peaks_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    peak = Peak(50_000.0, 4000.0, 0, "fp32 FMA in registers", "1024 MiB copied")
    measurement = replace(profiled(Profile((CONV, RELU), "device", GRAPH)), peak=peak)
    print_profile(make_console(), INFO, measurement)
    printed = capsys.readouterr().out
    (row,) = (line.split() for line in printed.splitlines() if line.startswith("conv2d_add"))
    assert row[5:9] == ["10000.0", "20%", "1000.0", "25%"]
    assert "peak of the card: 50000 GFLOP/s (fp32 FMA in registers), 4000.0 GB/s (1024 MiB copied)" in printed


def test_a_profile_by_the_host_warns_why() -> None:
    measurement = profiled(Profile((CONV,), "host", None, ("without CUPTI",)))
    assert measurement.warnings == ("without CUPTI",)
    assert profile_json(INFO, measurement)["graph"] is None
