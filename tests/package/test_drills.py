"""Faults of a robot that a session survives, or tells: signals, a stopped process, too little memory, seccomp."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cpp_programs import install_programs
from device_kinds import attributes_of
from preloaded import preload
from session_process import run_program
from small_disk import mount_disk
from small_package import build_package
from vulkan_devices import HOST

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
import resource, threading, warnings
first = tvmbuild.load(sys.argv[1], 1)
want = first.run(value)["Plus214_Output_0"]
threading.Thread(target=threading.Event().wait, daemon=True).start()  # takes the stack of a thread that has ended
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


def test_a_full_disk_is_told_and_leaves_the_other_sessions(package: Path) -> None:
    program = """
import resource
first = tvmbuild.load(sys.argv[1], 1)
want = first.run(value)["Plus214_Output_0"]
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # Python ignores its signal, so a write fails as on a full disk
try:
    tvmbuild.load(sys.argv[1], 1)
    said = ""
except tvmbuild.errors.TvmbuildError as error:
    said = str(error)
print(json.dumps([said, bool(np.array_equal(first.run(value)["Plus214_Output_0"], want))]))
"""
    said, same = run_program("import tvmbuild.errors\n" + program, package)
    assert "mod.so cannot be written: File too large" in said
    assert same


@pytest.mark.toolchain
def test_calls_go_on_while_the_clock_jumps(package: Path) -> None:
    program = """
import time
from concurrent.futures import CancelledError, wait
begun = time.monotonic()
jumps = abs(time.time() - time.time()) > 80000
session = tvmbuild.load(sys.argv[1], 2)
want = session.run(value)["Plus214_Output_0"]
same = all(np.array_equal(session.run(value)["Plus214_Output_0"], want) for _ in range(500))
futures = [session.submit(value, newest=True) for _ in range(500)]
done, left = wait(futures, timeout=60)
results = [each.result(timeout=60)["Plus214_Output_0"] for each in futures if not each.cancelled()]
same = same and all(np.array_equal(each, want) for each in results)
slow = [session.submit(value) for _ in range(50)]
same = same and all(np.array_equal(each.result(timeout=60)["Plus214_Output_0"], want) for each in slow)
time.sleep(0.01)  # the pool's threads sleep, and wake
same = same and bool(np.array_equal(session.run(value)["Plus214_Output_0"], want))
session.close()
jumps = jumps and abs(time.time() - time.time()) > 80000
print(json.dumps([jumps, same, len(left), not futures[-1].cancelled(), time.monotonic() - begun < 100]))
"""
    assert run_program(program, package, env=preload("jumping_clock")) == [True, True, 0, True, True]


@pytest.mark.mount
@pytest.mark.toolchain
def test_a_full_disk_is_told_by_the_programs(package: Path, tmp_path: Path) -> None:
    with mount_disk(tmp_path / "full", "size=16k") as folder:
        environment = {**os.environ, "TMPDIR": str(folder)}
        command = [sys.executable, "-m", "tvmbuild", "run", str(package)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        program = [install_programs() / "bin" / "bench_model", package]
        cpp = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        left = list(folder.iterdir())
    assert (done.returncode, cpp.returncode) == (1, 1)
    assert "No space left on device" in done.stderr
    assert "mod.so cannot be written: make room" in cpp.stderr
    assert "Traceback" not in done.stderr
    assert left == []


def test_the_workers_have_the_nice_value_and_class_of_the_thread_that_loads(package: Path) -> None:
    program = """
nice = os.nice(3)
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(7))
    wanted = [os.SCHED_FIFO, 7]
except PermissionError:
    wanted = [os.SCHED_OTHER, 0]
before = set(os.listdir("/proc/self/task"))
session = tvmbuild.load(sys.argv[1], 2)
session.run(value)
workers = [int(task) for task in set(os.listdir("/proc/self/task")) - before]
found = [[os.sched_getscheduler(task), os.sched_getparam(task).sched_priority] for task in workers]
own = {os.getpriority(os.PRIO_PROCESS, task) for task in workers}
print(json.dumps([len(workers) > 0, all(each == wanted for each in found), own == {nice}]))
"""
    assert run_program(program, package) == [True, True, True]


@pytest.mark.vulkan
def test_two_processes_share_a_gpu(digits: Path, tmp_path: Path) -> None:
    package = build_package(digits, tmp_path, attributes_of("vulkan"), "vulkan", HOST)
    program = """
import sys, numpy as np, tvmbuild
session = tvmbuild.load(sys.argv[1])
value = {"Input3": np.full((1, 1, 28, 28), 0.5, "float32")}
want = session.run(value)["Plus214_Output_0"]
print("ready", flush=True)
sys.stdin.readline()
same = all(np.array_equal(session.run(value)["Plus214_Output_0"], want) for _ in range(200))
print(same, want.tobytes().hex(), flush=True)
sys.stdin.readline()
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(package)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        both = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(2)]
        for word in ("ready", "True"):
            said = [each.stdout.readline() for each in both if each.stdout]
            assert all(line.startswith(word) for line in said), said
            assert len(set(said)) == 1
            for each in both:
                if each.stdin:
                    each.stdin.write("\n")
                    each.stdin.flush()
        assert [each.wait(60) for each in both] == [0, 0]
