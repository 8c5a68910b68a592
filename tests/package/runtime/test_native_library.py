"""The making of the libraries of tvmbuild's own runtimes, and the messages if one cannot be made or loaded."""

from __future__ import annotations

import importlib.util
import platform
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime import native_library
from tvmbuild.package.runtime.native_build import MACHINES, RUNTIMES, NativeRuntime, compile_library
from tvmbuild.package.runtime.native_library import PINNED, find_library, load_library

pytestmark = pytest.mark.compiler


@pytest.fixture(params=RUNTIMES, ids=lambda runtime: runtime.kind)
def runtime(request: pytest.FixtureRequest) -> NativeRuntime:
    chosen: NativeRuntime = request.param
    return chosen


@pytest.mark.parametrize("machine", MACHINES)
def test_it_compiles_for_every_machine_without_a_warning(runtime: NativeRuntime, machine: str, tmp_path: Path) -> None:
    library = compile_library(runtime, machine, tmp_path, "-Werror")
    header = library.read_bytes()[:20]
    assert header[:4] == b"\x7fELF"
    assert header[18] == {"x86_64": 62, "aarch64": 183}[machine]
    assert library.stat().st_size < 200_000


@pytest.mark.usefixtures("own_folders")
def test_it_is_compiled_once(runtime: NativeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(Path.home() / ".cache/tvmbuild/zig"))
    monkeypatch.setattr(native_library, "place_prebuilt", lambda *_: Path("/nonexistent/none"))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(partial(find_library, runtime), ["x86_64", "x86_64"])
    assert first == second
    assert [path.name for path in first.parent.iterdir()] == [runtime.library]
    made = first.stat().st_mtime_ns
    assert find_library(runtime, "x86_64").stat().st_mtime_ns == made


def test_what_a_wheel_brings_is_taken(runtime: NativeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "place_prebuilt", lambda runtime, machine: tmp_path / machine / runtime.library)
    (tmp_path / "aarch64").mkdir()
    (tmp_path / "aarch64" / runtime.library).touch()
    assert find_library(runtime, "aarch64") == tmp_path / "aarch64" / runtime.library


@pytest.mark.usefixtures("own_folders")
def test_without_a_compiler(runtime: NativeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "place_prebuilt", lambda *_: Path("/nonexistent/none"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TvmbuildError, match="there is no compiler") as caught:
        find_library(runtime, machine_of(platform.machine()))
    assert "pip install ziglang" in str(caught.value.hint)


def test_a_machine_that_there_is_none_for(runtime: NativeRuntime) -> None:
    with pytest.raises(TvmbuildError, match=f"there is no {runtime.title} runtime for riscv64"):
        find_library(runtime, "riscv64")


@pytest.mark.parametrize("distribution", PINNED)
def test_another_tvm_is_refused(runtime: NativeRuntime, distribution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PINNED, distribution, "0.99")
    with pytest.raises(TvmbuildError, match=f"is made for {distribution} 0.99, and 0"):
        load_library(runtime, Path("/nonexistent"))


def test_a_library_that_does_not_load(runtime: NativeRuntime) -> None:
    with pytest.raises(TvmbuildError, match="does not fit this TVM"):
        load_library(runtime, Path("/nonexistent"))
