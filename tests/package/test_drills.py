"""Faults of a robot that a session survives, or tells: signals, a stopped process, too little memory, seccomp."""

from __future__ import annotations

from pathlib import Path

import pytest
from session_process import run_program
from small_package import build_package

from tvmbuild.base.host_cpu import available_cores

pytestmark = [pytest.mark.compiler, pytest.mark.skipif(available_cores() < 2, reason="one core")]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("drills"))


def test_signals_interrupt_no_call(package: Path) -> None:
    program = """
import signal
heard = []
signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
session = tvmbuild.load(sys.argv[1], 2)
want = session.run(value)["Plus214_Output_0"]
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
same = all(np.array_equal(session.run(value)["Plus214_Output_0"], want) for _ in range(2000))
signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps([same, len(heard) > 10]))
"""
    assert run_program(program, package) == [True, True]


def test_a_stopped_process_goes_on(package: Path) -> None:
    program = """
import subprocess, time
session = tvmbuild.load(sys.argv[1], 2)
want = session.run(value)["Plus214_Output_0"]
stopper = subprocess.Popen(["sh", "-c", f"for i in 1 2 3; do kill -STOP {os.getpid()}; sleep 0.2; "
                                        f"kill -CONT {os.getpid()}; sleep 0.1; done"])
runs, same = 0, True
while stopper.poll() is None:
    same, runs = same and bool(np.array_equal(session.run(value)["Plus214_Output_0"], want)), runs + 1
print(json.dumps([same, runs > 10]))
"""
    assert run_program(program, package) == [True, True]


def test_threads_that_find_no_memory_are_told(package: Path) -> None:
    program = """
import resource, warnings
first = tvmbuild.load(sys.argv[1], 1)
want = first.run(value)["Plus214_Output_0"]
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (6 << 20),) * 2)  # a thread's stack is 8 MB
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    session = tvmbuild.load(sys.argv[1], 2)
got = session.run(value)["Plus214_Output_0"]
print(json.dumps([[str(each.message) for each in told], bool(np.allclose(got, want))]))
"""
    assert run_program(program, package) == [["only 1 of 2 threads could be started"], True]


def test_a_container_may_forbid_sched_setaffinity(package: Path) -> None:
    program = """
import ctypes, platform, struct
number = {"x86_64": 203, "aarch64": 122}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filter), 0, 0) == 0, ctypes.get_errno()
session = tvmbuild.load(sys.argv[1], 2)
session.run(value)
try:
    tvmbuild.load(sys.argv[1], cores=sorted(os.sched_getaffinity(0))[:1])
    said = ""
except tvmbuild.errors.TvmbuildError as error:
    said = str(error)
print(json.dumps([session.threads, said]))
"""
    threads, said = run_program(program, package)
    assert threads == 2
    assert "threads cannot be bound to the cores " in said
    assert "Operation not permitted" in said
    assert "seccomp" in said
