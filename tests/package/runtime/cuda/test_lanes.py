"""Submitted calls on a card: copies run beside the kernels of other calls, and all work on the same memory has an order.

The driver is cuda_shim.cpp, which knows the order of the work on all streams.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from cuda_package import build_package_of_frames, build_package_that_returns_its_input
from cuda_shim import shim_environment

pytestmark = pytest.mark.compiler

OPEN = """
import numpy as np
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
"""


def run(package: Path, code: str, log: Path, **options: str) -> tuple[list[str], list[str]]:
    """Return the lines that the program prints, and those of the shim."""
    told = run_child(f"{OPEN}session = Session({str(package)!r})\n{code}", shim_environment(log=str(log), **options))
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("mistake")]
    return told.splitlines(), lines


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package_that_returns_its_input(tmp_path_factory.mktemp("lanes"))


SUBMIT = """
futures = []
for number in range(12):
    x = session.empty("x")
    x[...] = number
    futures.append(session.submit({"x": x}))
print([set(each.result(20)["same"].tolist()) for each in futures] == [{float(number)} for number in range(12)])
session.close()
"""


@pytest.mark.parametrize("devices", ["H100:90", "Orin:90:integrated"])
def test_outputs_are_those_of_their_inputs_and_all_work_is_ordered(
    package: Path, tmp_path: Path, devices: str
) -> None:
    told, lines = run(package, SUBMIT, tmp_path / "log", devices=devices)
    assert told == ["True"]
    assert lines[-1].endswith("modules=0 streams=0 events=0 graphs=0")
