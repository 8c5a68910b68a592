"""The thread pool of packages, compiled and driven from Python."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.package.runtime.thread_pool import HOST_NAME, Share, use_own_pool

pytestmark = [pytest.mark.compiler, pytest.mark.skipif(sys.platform != "linux", reason="packages are for Linux")]

LOOP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tvmbuild.compiler.codegen.link import compile_pool

    folder = tmp_path_factory.mktemp("pool")
    compile_pool(folder / "pool.o", platform.machine())
    name = f"-soname={HOST_NAME}"
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", name, "-o", "pool.so", "pool.o"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "pool.so"


@pytest.fixture
def pool(library: Path, tmp_path: Path) -> Iterator[Any]:
    """A copy of the library: each copy has its own threads, which end with it."""
    copy = tmp_path / "own.so"
    copy.write_bytes(library.read_bytes())
    loaded = ctypes.CDLL(str(copy))
    before = count_threads()
    yield loaded
    _ctypes.dlclose(loaded._handle)
    end = time.monotonic() + 10
    while count_threads() > before:  # a thread that has ended is counted a moment longer
        assert time.monotonic() < end


def count_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def note(seen: list[int]) -> Callable[[int], int]:
    """Return a loop body that records its shares."""

    def body(task: int) -> int:
        seen.append(task)
        return 0

    return body


def launch(pool: Any, body: Callable[[int], int], tasks: int) -> int:
    function = LOOP(lambda task, _group, _data: body(task))
    return int(pool.tvmbuild_pool_launch(function, None, tasks))


def test_every_share_is_run_once_whatever_their_number(pool: Any) -> None:
    assert pool.tvmbuild_pool_start(3) == 0
    assert count_threads() >= 3
    for tasks in (1, 2, 3, 7, 100):
        for _ in range(50):
            seen: list[int] = []
            assert launch(pool, note(seen), tasks) == 0
            assert sorted(seen) == list(range(tasks))


def test_no_number_means_one_for_each_thread(pool: Any) -> None:
    pool.tvmbuild_pool_start(3)
    seen: list[int] = []
    assert launch(pool, note(seen), 0) == 0
    assert sorted(seen) == [0, 1, 2]


def test_the_workers_take_part_and_a_slow_share_is_waited_for(pool: Any) -> None:
    pool.tvmbuild_pool_start(2)
    meeting = threading.Barrier(2, timeout=20)  # passes only when two threads are in it at once
    threads: set[int] = set()

    def meet(_task: int) -> int:
        meeting.wait()
        threads.add(threading.get_ident())
        return 0

    for _ in range(20):
        assert launch(pool, meet, 2) == 0
    assert len(threads) == 2


def test_a_share_that_fails_fails_the_loop_and_not_the_next(pool: Any) -> None:
    pool.tvmbuild_pool_start(2)
    assert launch(pool, lambda task: -1 if task == 3 else 0, 8) == -1
    assert launch(pool, lambda _task: 0, 8) == 0


def test_a_loop_inside_a_loop_and_one_from_another_thread_run_all_the_same(pool: Any) -> None:
    pool.tvmbuild_pool_start(2)
    inner: list[int] = []
    outer = LOOP(lambda _task, _group, _data: launch(pool, note(inner), 4))
    assert pool.tvmbuild_pool_launch(outer, None, 2) == 0
    assert sorted(inner) == [0, 0, 1, 1, 2, 2, 3, 3]
    counts = [0, 0, 0]

    def many(index: int) -> None:
        for _ in range(300):
            seen: list[int] = []
            assert launch(pool, note(seen), 3) == 0
            counts[index] += len(seen)

    others = [threading.Thread(target=many, args=(index,)) for index in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert counts == [900, 900, 900]


def test_workers_that_sleep_are_woken(pool: Any) -> None:
    pool.tvmbuild_pool_start(2)
    meeting = threading.Barrier(2, timeout=20)
    for _ in range(5):
        time.sleep(0.02)  # longer than they look
        assert launch(pool, lambda _task: meeting.wait() and 0, 2) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_workers_of_its_own(pool: Any) -> None:
    pool.tvmbuild_pool_start(2)
    assert launch(pool, lambda _task: 0, 2) == 0
    child = os.fork()
    if child == 0:
        seen: list[int] = []
        result = launch(pool, note(seen), 4)
        os._exit(0 if result == 0 and sorted(seen) == [0, 1, 2, 3] and meet_in_two_threads(pool) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert meet_in_two_threads(pool)


def meet_in_two_threads(pool: Any) -> bool:
    """Return whether two threads were in a loop at once."""
    meeting = threading.Barrier(2, timeout=20)
    return launch(pool, lambda _task: meeting.wait() and 0, 2) == 0


def test_it_starts_once_and_for_a_sensible_number(pool: Any) -> None:
    assert pool.tvmbuild_pool_start(0) == -1
    assert pool.tvmbuild_pool_start(100000) == -1
    assert pool.tvmbuild_pool_start(2) == 0
    assert pool.tvmbuild_pool_start(2) == 0  # loaded once more
    assert pool.tvmbuild_pool_start(3) == -1


ANYWHERE = (ctypes.c_uint64 * 16)(*[2**64 - 1] * 16)


@pytest.fixture
def libraries(library: Path, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """A function that loads one more copy of the library."""
    opened: list[Any] = []

    def load() -> Any:
        copy = tmp_path / f"{len(opened)}.so"
        copy.write_bytes(library.read_bytes())
        opened.append(ctypes.CDLL(str(copy)))
        opened[-1].tvmbuild_pool_join.restype = ctypes.c_void_p
        return opened[-1]

    yield load
    for each in opened:
        _ctypes.dlclose(each._handle)


def join(
    host: Any, guest: Any, limit: int, threads: int, *, priority: int = 0, cores: Any = ANYWHERE
) -> ctypes.c_void_p:
    team = ctypes.c_void_p(host.tvmbuild_pool_join(cores, cores is not ANYWHERE, limit, threads))
    run = ctypes.cast(host.tvmbuild_pool_run, ctypes.c_void_p)
    guest.tvmbuild_pool_use(team, threads, priority, run, None, None)
    return team


def test_two_libraries_share_threads_and_each_has_its_share(libraries: Callable[[], Any]) -> None:
    host, guest, before = libraries(), libraries(), count_threads()
    team = join(host, host, 4, 2)
    assert count_threads() == before + 1
    assert join(host, guest, 4, 3).value == team.value
    assert count_threads() == before + 3  # 1 + 2 beside the callers
    assert host.tvmbuild_pool_threads(team) == 4
    join(host, guest, 4, 3)
    assert count_threads() == before + 3  # never more than the cores that no caller has
    for library, shares in ((host, 2), (guest, 3)):
        seen: list[int] = []
        assert launch(library, note(seen), 0) == 0
        assert sorted(seen) == list(range(shares))


def test_workers_take_shares_of_the_highest_priority_first(libraries: Callable[[], Any]) -> None:
    host, urgent = libraries(), libraries()
    join(host, host, 8, 2)
    join(host, urgent, 8, 2, priority=5)
    order: list[str] = []
    entered, opened = threading.Event(), threading.Event()

    def block(_task: int) -> int:
        entered.set()
        return 0 if opened.wait(20) else -1

    def call(library: Any, name: str) -> None:
        caller = threading.get_ident()

        def body(_task: int) -> int:
            if threading.get_ident() == caller:
                opened.wait(20)
                time.sleep(0.3)
                return 0
            order.append(name)
            return 0

        assert launch(library, body, 3) == 0

    # Both workers are blocked in the first loop, while two more loops wait for them.
    threads = [threading.Thread(target=launch, args=(host, block, 3))]
    threads[0].start()
    assert entered.wait(20)
    for library, name in ((host, "low"), (urgent, "high")):
        threads.append(threading.Thread(target=call, args=(library, name)))
        threads[-1].start()
    time.sleep(0.2)
    opened.set()
    for thread in threads:
        thread.join(20)
    assert order[0] == "high"


@pytest.mark.parametrize("pinned", [False, True])
def test_workers_leave_the_cores_to_the_callers(libraries: Callable[[], Any], *, pinned: bool) -> None:
    """Two callers fill two cores. The worker may have begun a share when a caller comes, and it takes few others.

    The same holds for two teams on these cores, one of them pinned, each with a caller and a worker.
    """
    host = libraries()
    guest = libraries() if pinned else host
    join(host, host, 2, 2)
    if pinned:
        join(host, guest, 2, 2, cores=(ctypes.c_uint64 * 16)(sum(1 << core for core in os.sched_getaffinity(0))))
    callers = set[int]()
    shares = {"callers": 0, "worker": 0}
    both = threading.Barrier(2)

    def body(_task: int) -> int:
        shares["callers" if threading.get_ident() in callers else "worker"] += 1
        time.sleep(0.001)
        return 0

    def call(library: Any) -> None:
        callers.add(threading.get_ident())
        both.wait(30)
        for _ in range(50):
            assert launch(library, body, 2) == 0

    threads = [threading.Thread(target=call, args=(each,)) for each in (host, guest)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(shares.values()) == 200
    assert shares["worker"] <= 25


FAILING = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.parallel(64):
        B[i] = A[i] + T.float32(1)
        assert A[i] > T.float32(0), "bad element"
"""


@pytest.fixture
def failing(library: Path, tmp_path: Path) -> Path:
    """A library of TVM's with the pool, whose function refuses numbers that are not positive."""
    import tvm
    from tvm.script import from_source
    from tvm.script import tirx as T  # noqa: N812 - TVMScript's name

    def link(output: str, objects: list[str], **_: object) -> None:
        command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", f"-soname={HOST_NAME}", "-o", output, *objects]
        subprocess.run([*command, str(library.with_name("pool.o"))], check=True)

    link.output_format = "so"  # type: ignore[attr-defined]
    path = tmp_path / "failing.so"
    mod = tvm.IRModule({"main": from_source(FAILING, {"T": T})})
    tvm.compile(mod, target=tvm.target.Target({"kind": "llvm"})).export_library(str(path), fcompile=link)
    return path


def test_an_error_in_any_share_is_raised_where_the_loop_was_called(failing: Path) -> None:
    import numpy as np
    import tvm
    import tvm_ffi

    before = count_threads()
    for _ in range(2):  # a library that is loaded once more gets its pool again
        module: Any = tvm_ffi.load_module(str(failing), keep_module_alive=False)
        assert use_own_pool(failing, Share(2))
        result = tvm.runtime.tensor(np.zeros(64, "float32"))
        for first in (5, 60) * 10:  # in either thread's share
            values = np.ones(64, "float32")
            module["main"](tvm.runtime.tensor(values), result)
            values[first] = -1
            with pytest.raises(RuntimeError, match="bad element"):
                module["main"](tvm.runtime.tensor(values), result)
    del module
    end = time.monotonic() + 10
    while count_threads() > before:
        assert time.monotonic() < end, "its threads did not end with the library"


def test_a_library_without_a_pool_is_left_alone(failing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm_ffi

    module: Any = tvm_ffi.load_module(str(failing), keep_module_alive=False)
    monkeypatch.setenv("TVMBUILD_THREAD_POOL", "tvm")
    assert not use_own_pool(failing, Share(2))
    del module


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_the_runtimes_own_threads_leave_the_caller_on_its_cores() -> None:
    code = (
        "import os; last = max(os.sched_getaffinity(0)); os.sched_setaffinity(0, {last})\n"
        "from tvmbuild.package.runtime.library import num_threads\n"
        "print(num_threads(), os.sched_getaffinity(0) == {last})"
    )
    environment = {**os.environ, "TVM_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True"]
