"""Sessions share the threads of their process, within the cores that it may use."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_process import run_program
from small_package import build_package

import tvmbuild
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime import thread_pool

pytestmark = [pytest.mark.compiler, pytest.mark.skipif(available_cores() < 2, reason="one core")]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("threads"))


def test_any_number_of_sessions_have_the_threads_of_one(package: Path) -> None:
    program = """
first = tvmbuild.load(sys.argv[1], 2)
want = first.run(value)["Plus214_Output_0"]
counts = [threads()]
more = [tvmbuild.load(sys.argv[1], 2) for _ in range(4)]
counts.append(threads())
first.close()  # the others go on with its threads
same = [bool(np.array_equal(each.run(value)["Plus214_Output_0"], want)) for each in more]
for each in more:
    each.close()
print(json.dumps([counts, same, more[0].threads]))
"""
    counts, same, threads = run_program(program, package)
    cores = available_cores()
    assert counts[1] - counts[0] == min(cores - 1, 5) - 1
    assert (same, threads) == ([True] * 4, 2)


def test_a_package_of_an_older_tvmbuild_has_threads_of_its_own(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    monkeypatch.setattr(thread_pool, "_join", lambda *_: joined.append(1))
    real = ctypes.CDLL.__getattr__

    def hide(library: Any, name: str) -> Any:
        if name == "tvmbuild_pool_join":
            raise AttributeError(name)
        return real(library, name)

    monkeypatch.setattr(ctypes.CDLL, "__getattr__", hide)
    with tvmbuild.load(package, 2) as session:
        assert session.threads == 2
        session.run({"Input3": np.ones((1, 1, 28, 28), np.float32)})
    assert joined == []
    with pytest.raises(TvmbuildError, match="this package's threads cannot be bound to cores"):
        tvmbuild.load(package, cores=[min(os.sched_getaffinity(0))])


def test_calls_stay_on_the_named_cores(package: Path) -> None:
    program = """
from tvmbuild.package.runtime.thread_pool import Share, run_on_cores
before = os.sched_getaffinity(0)
core = max(before)
session = tvmbuild.load(sys.argv[1], cores=[core])
session.run(value)
inside = run_on_cores(lambda: sorted(os.sched_getaffinity(0)), session._share)()
there = set(os.listdir("/proc/self/task"))
wide = tvmbuild.load(sys.argv[1], cores=sorted(before)[:2])
wide.run(value)
worker, = set(os.listdir("/proc/self/task")) - there
bound = sorted(os.sched_getaffinity(int(worker))) == sorted(before)[:2]
print(json.dumps([session.threads, wide.threads, inside == [core], bound, os.sched_getaffinity(0) == before]))
"""
    assert run_program(program, package) == [1, 2, True, True, True]


def test_the_fastest_cores_are_as_many_as_threads(package: Path) -> None:
    with tvmbuild.load(package, 1, cores="fastest") as session:
        assert len(session._share.cores) == 1
        assert set(session._share.cores) <= os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("cores", "threads", "said"),
    [
        ([4000], None, "the cores 4000 were asked for, and this process may use the cores "),
        ([], None, "no core was named, and this process may use the cores "),
        ("one", 2, "2 threads were asked for, and the session may use 1 core"),
    ],
)
def test_cores_that_cannot_be_used_are_named(package: Path, cores: Any, threads: int | None, said: str) -> None:
    asked = [min(os.sched_getaffinity(0))] if cores == "one" else cores
    with pytest.raises(TvmbuildError) as caught:
        tvmbuild.load(package, threads, cores=asked)
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["many", "", "-1", "1.5", "2 ", "٢"])
def test_a_variable_that_is_no_number_is_refused(package: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", text)
    with pytest.raises(TvmbuildError, match=r"TVM_NUM_THREADS is .*, not a number"):
        tvmbuild.load(package)


def test_a_session_has_the_cores_of_the_groups_quota(package: Path) -> None:
    folder = Path(f"/sys/fs/cgroup/cpu/tvmbuild-session-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    program = """
open(sys.argv[2], "w").write(str(os.getpid()))
session = tvmbuild.load(sys.argv[1])
try:
    tvmbuild.load(sys.argv[1], 2)
    said = ""
except tvmbuild.errors.TvmbuildError as error:
    said = str(error)
print(json.dumps([session.threads, said]))
"""
    try:
        (folder / "cpu.cfs_quota_us").write_text("100000")
        threads, said = run_program(program, package, folder / "cgroup.procs")
    finally:
        folder.rmdir()
    assert threads == 1
    assert "2 threads were asked for, and this process may use 1 core" in said


def test_a_forked_child_runs_what_its_parent_loaded(package: Path) -> None:
    program = """
session = tvmbuild.load(sys.argv[1], 2)
want = session.run(value)["Plus214_Output_0"]
child = os.fork()
if child == 0:
    got = session.run(value)["Plus214_Output_0"]
    with tvmbuild.load(sys.argv[1], 2) as own:
        again = own.run(value)["Plus214_Output_0"]
    os._exit(0 if np.array_equal(got, want) and np.array_equal(again, want) and threads() >= 2 else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps([status, bool(np.array_equal(session.run(value)["Plus214_Output_0"], want))]))
"""
    assert run_program(program, package) == [0, True]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"threads": 1.5}, "`threads` has the value 1.5"),
        ({"threads": "2"}, "`threads` has the value '2'"),
        ({"threads": True}, "`threads` has the value True"),
        ({"priority": 1.5}, "`priority` has the value 1.5"),
        ({"priority": "x"}, "`priority` has the value 'x'"),
        ({"priority": 2**40}, "the priority 1099511627776 was asked for"),
        ({"cores": 0}, "`cores` is 0"),
        ({"cores": "slowest"}, "`cores` is 'slowest'"),
        ({"cores": b"0"}, "`cores` is b'0'"),
        ({"cores": [0.5]}, "`cores` has the value 0.5"),
        ({"cores": [0, "a"]}, "`cores` has the value 'a'"),
    ],
)
def test_wishes_of_another_type_are_refused(package: Path, wish: dict[str, Any], told: str) -> None:
    with pytest.raises(TvmbuildError) as caught:
        tvmbuild.load(package, **wish)
    assert (caught.value.message, bool(caught.value.hint)) == (told, True)


def test_numbers_of_numpy_are_numbers(package: Path) -> None:
    cores = np.array(sorted(os.sched_getaffinity(0)))
    with tvmbuild.load(package, np.int64(2), priority=np.int32(-3), cores=cores) as session:
        assert session.threads == 2


@pytest.mark.parametrize("paths", [None, 3, b"net.tar", [None], ["net.tar", None]])
def test_values_that_are_no_paths_are_refused(paths: Any) -> None:
    told = paths[-1] if isinstance(paths, list) else paths
    with pytest.raises(TvmbuildError, match=f"^{told!r} is no path of a package"):
        tvmbuild.load(paths)


def test_a_variable_of_thousands_of_digits_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1" * 5000)
    with pytest.raises(TvmbuildError, match="TVM_NUM_THREADS is '111111111…', not a number of threads"):
        tvmbuild.load(package)
