"""The load for every kind of board."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_package import build_package

from tvmbuild.devices.model_worker import Load
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import make_inputs, write_arrays


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Load:
    folder = tmp_path_factory.mktemp("package")
    package = build_package(digits, folder)
    inputs = make_inputs(read_metadata(package).inputs, "random")
    write_arrays(folder / "reference.npz", {f"input:{name}": value for name, value in inputs.items()})
    return Load("tvm", package, folder / "reference.npz", 2)
