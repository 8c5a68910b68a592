"""CUDA graphs: captured once for each virtual machine, launched afterwards, and released with their machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from cuda_package import build_cuda_package, build_package_of_like_graphs
from cuda_shim import shim_environment

pytestmark = pytest.mark.compiler

OPEN = """
import numpy as np
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
x = {"x": np.ones((1, 3, 8, 8), np.float32)}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cuda_package(tmp_path_factory.mktemp("graphs"))


def run(package: Path, code: str, log: Path, **options: str) -> tuple[list[str], list[str]]:
    """Return the lines that the program prints, and those of the shim."""
    told = run_child(f"{OPEN}session = Session({str(package)!r})\n{code}", shim_environment(log=str(log), **options))
    return told.splitlines(), log.read_text().splitlines()


def test_a_graph_is_captured_once_and_launched_in_every_call(package: Path, tmp_path: Path) -> None:
    _, lines = run(package, "for _ in range(3): session.run(x)", tmp_path / "log")
    captured = [line for line in lines if line.startswith("graph of")]
    assert len(captured) == 1
    held = int(captured[0].split()[-1])
    assert held >= 2
    assert lines.count("graph") == 3
    assert sum(line.startswith("  launch") for line in lines) == 3 * held
    alone = [line for line in lines if line.startswith("launch")]
    assert len(alone) == 3 * 2  # the first and the last kernel of each call
    assert not [line for line in lines if line.startswith("mistake")]


def test_graphs_that_look_alike_have_memory_of_their_own(tmp_path: Path) -> None:
    """TVM makes one function of them, and numbers the places that call it."""
    package = build_package_of_like_graphs(tmp_path, 4)
    code = 'x = {"x": np.ones((64, 64), np.float32)}\nsession.run(x)\nsession.run(x)'
    _, lines = run(package, code, tmp_path / "log")
    captured = sum(line.startswith("graph of") for line in lines)
    assert captured >= 2
    assert lines.count("graph") == 2 * captured
    assert not [line for line in lines if line.startswith("mistake")]


def test_every_machine_has_a_graph_and_releases_it(package: Path, tmp_path: Path) -> None:
    code = f"""
bound = session.bind(x)
bound(); bound()
session.run(x)
del bound
session.close()
again = Session({str(package)!r})
again.run(x)
again.close()
"""
    _, lines = run(package, code, tmp_path / "log")
    assert sum(line.startswith("graph of") for line in lines) == 3
    assert lines.count("unload") == 2
    assert "modules=0 streams=0" in lines[-1]
    assert lines[-1].endswith("graphs=0")
    assert not [line for line in lines if line.startswith("mistake")]


def test_threads_have_machines_and_graphs_of_their_own(package: Path, tmp_path: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool: print(len(list(pool.map(lambda _: session.run(x), range(40)))))
"""
    told, lines = run(package, code, tmp_path / "log")
    assert told == ["40"]
    assert 1 <= sum(line.startswith("graph of") for line in lines) <= 4
    assert lines.count("graph") == 40
    assert not [line for line in lines if line.startswith("mistake")]


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("cuStreamCreate:2@1", "could not make a stream: out of memory"),
        ("cuStreamBeginCapture_v2:900@1", "could not capture a graph: code 900"),
        ("cuLaunchKernelEx:701@2", "could not launch kernel"),
        ("cuStreamEndCapture:901@1", "could not capture a graph: code 901"),
        ("cuGraphInstantiateWithFlags:2@1", "could not make a graph: out of memory"),
        ("cuGraphUpload:2@1", "could not prepare a graph: out of memory"),
        ("cuGraphLaunch:2@1", "could not launch a graph: out of memory"),
    ],
)
def test_a_capture_that_fails_is_told_and_the_next_call_captures(
    package: Path, tmp_path: Path, fail: str, message: str
) -> None:
    code = """
try: session.run(x)
except TvmbuildError as error: print(error.message)
session.run(x)
session.close()
"""
    told, lines = run(package, code, tmp_path / "log", fail=fail)
    assert len(told) == 1
    assert told[0].startswith("CUDA: NVIDIA H100 shim could not ")
    assert message in told[0]
    assert lines.count("graph") == 1
    assert lines[-1].endswith(" streams=0 events=0 graphs=0")
    assert not [line for line in lines if line.startswith("mistake")]


def test_nothing_but_the_driver_is_mapped(package: Path, tmp_path: Path) -> None:
    code = """
session.run(x)
maps = open("/proc/self/maps").read()
print([name for name in ("libcudart", "libnvrtc", "libtvm_runtime_cuda", "libcuda.so.1") if name in maps])
"""
    told, _ = run(package, code, tmp_path / "log")
    assert told == ["['libcuda.so.1']"]
