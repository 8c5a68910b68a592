"""The drivers' compiled code, kept for the next process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vulkan

PROJECT = Path(__file__).resolve().parents[4]
COMPUTE = """
import numpy as np
from tvmbuild.package.runtime.vulkan.plugin import load_plugin
load_plugin()
from vulkan_tensors import ScaleAndAdd, download, empty, upload
ones, out = upload(np.ones(64, "float32")), empty(64)
ScaleAndAdd()(ones, ones, out, 2.0)
print(download(out)[0])
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tvmbuild" / "vulkan-pipelines"


def compute(cache: Path, **environment: str) -> None:
    from tvmbuild.base.host_cpu import machine_of
    from tvmbuild.package.runtime.native_build import VULKAN
    from tvmbuild.package.runtime.native_library import find_library

    library = find_library(VULKAN, machine_of(os.uname().machine))
    setup = "import pathlib\nfrom tvmbuild.package.runtime import native_library\n"
    setup += f"native_library.find_library = lambda *_: pathlib.Path({str(library)!r})\n"
    paths = os.pathsep.join([str(PROJECT), str(PROJECT / "tests/support")])
    done = subprocess.run(
        [sys.executable, "-c", setup + COMPUTE],
        env={**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(cache.parents[1]), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr


def test_it_is_written_and_read_again(cache: Path) -> None:
    compute(cache)
    (file,) = cache.iterdir()
    data = file.read_bytes()
    assert data[:8] == b"tvmbPIP\x01"
    compute(cache)
    assert [path.name for path in cache.iterdir()] == [file.name]


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "changed", "no header", "folder"])
def test_a_damaged_one_is_made_anew(cache: Path, damage: str) -> None:
    compute(cache)
    (file,) = cache.iterdir()
    data = file.read_bytes()
    if damage == "folder":
        file.unlink()
        (file / "inside").mkdir(parents=True)
    else:
        changed = {
            "empty": b"",
            "cut": data[:-1],
            "longer": data + b"\0",
            "changed": data[:-1] + bytes([data[-1] ^ 1]),
            "no header": data[:8] + b"\xff" * (len(data) - 8),
        }
        file.write_bytes(changed[damage])
    compute(cache)
    if damage != "folder":
        assert len(file.read_bytes()) == len(data)
    assert len(list(cache.iterdir())) == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    compute(tmp_path / "file" / "tvmbuild" / "vulkan-pipelines")
