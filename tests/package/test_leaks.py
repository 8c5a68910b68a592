"""Eight threads and a thousand runs each leak nothing, in Python and in C++."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cpp_programs import SUPPORT, build_by_cmake, run_program
from small_package import build_package

pytestmark = pytest.mark.compiler
RUNS = 1000
MAX_GROWTH_KB = 4_000
PYTHON = """
import sys, threading
import numpy as np
import tvmbuild

def resident_kb():
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmRSS:"))
    return int(line.split()[1])

done, different = [], []

def work(session, seed, runs):
    value = np.random.default_rng(seed).uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)
    first = session.run({"Input3": value})["Plus214_Output_0"]
    for _ in range(runs):
        if not np.allclose(session.run({"Input3": value})["Plus214_Output_0"], first, rtol=1e-5, atol=1e-5):
            different.append(seed)
        done.append(seed)

for round in range(10):
    with tvmbuild.load(sys.argv[1]) as session:
        threads = [threading.Thread(target=work, args=(session, i, int(sys.argv[2]) // 10)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if round == 0:
        before = resident_kb()
print("runs", len(done), "different", len(different), "before", before, "after", resident_kb())
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("digits"))


def expect_nothing_left(output: str) -> None:
    found = re.fullmatch(r"runs (\d+) different (\d+) before (\d+) after (\d+)\n", output)
    assert found is not None, output
    runs, different, before, after = map(int, found.groups())
    assert (runs, different) == (8 * RUNS, 0)
    assert before > 0
    assert after - before < MAX_GROWTH_KB, output


def test_eight_threads_of_python_share_a_session(package: Path) -> None:
    command = [sys.executable, "-c", PYTHON, str(package), str(RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    expect_nothing_left(done.stdout)


@pytest.mark.nightly
@pytest.mark.toolchain
def test_eight_threads_of_cpp_have_a_session_each(package: Path, tmp_path: Path) -> None:
    build_by_cmake(tmp_path, source=SUPPORT / "cpp_threads")
    expect_nothing_left(run_program(tmp_path / "build" / "threads", package, RUNS).stdout)


@pytest.mark.nightly
@pytest.mark.toolchain
def test_the_sanitizers_find_nothing_in_eight_threads(package: Path, tmp_path: Path) -> None:
    build_by_cmake(tmp_path, "-DTVMBUILD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug", source=SUPPORT / "cpp_threads")
    done = run_program(tmp_path / "build" / "threads", package, RUNS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"runs {8 * RUNS} different 0 "), done.stderr
