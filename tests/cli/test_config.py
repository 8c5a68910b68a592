from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tvmbuild.cli import main


def told(capsys: pytest.CaptureFixture[str], option: str) -> str:
    assert main(["config", option]) == 0
    return capsys.readouterr().out.strip()


def test_what_it_names_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    sources = Path(told(capsys, "--cmake-dir"))
    assert (sources / "CMakeLists.txt").is_file()
    found = json.loads(told(capsys, "--json"))
    includes, libraries = (list(map(Path, found[key])) for key in ("include_dirs", "libraries"))
    assert found["cmake_dir"] == str(sources)
    assert [path.name for path in libraries] == ["libtvm_runtime.so", "libtvm_ffi.so"]
    assert all(path.is_file() for path in libraries)
    for header in ("tvmbuild.hpp", "tvm/ffi/c_api.h", "dlpack/dlpack.h"):
        assert any((folder / header).is_file() for folder in includes)


def test_flags_name_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "--json"))
    flags = told(capsys, "--cflags").split()
    assert [flag.removeprefix("-I") for flag in flags if flag.startswith("-I")] == found["include_dirs"]
    links = told(capsys, "--libs")
    for library in found["libraries"]:
        assert f" {library} " in links
        assert f"-rpath,{Path(library).parent}" in links


def test_the_vulkan_runtime_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(told(capsys, "--vulkan").splitlines()[-1])
    assert (path.name, path.is_file()) == ("libtvmbuild_vulkan.so", True)


def test_it_imports_nothing_of_tvm() -> None:
    program = (
        "import sys; from tvmbuild.cli import main; main(['config', '--libs'])\n"
        "print(sorted({'tvm', 'tvm_ffi', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_machine_without_the_runtime(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delenv("TVM_LIBRARY_PATH", raising=False)
    assert main(["config", "--libs"]) == 1
    error = capsys.readouterr().err
    assert "tvm/ffi/c_api.h is not there" in error
    assert "install apache-tvm-ffi" in error


def test_one_thing_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["config"])
    assert ended.value.code == 2
    assert "--cmake-dir" in capsys.readouterr().err
