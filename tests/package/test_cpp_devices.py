"""C++ programs run packages of every kind of target, and refuse the kinds that this machine lacks in Python's words."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import SUPPORT, build_by_cmake, expect_pythons_ranking, install_programs, run_program
from device_kinds import KINDS, attributes_of, read_arch
from made_once import make_once
from PIL import Image
from small_package import ANY_X86, build_package, change_package
from vulkan_devices import HOST

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.vulkan_driver import ask_driver, explain_driver
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.runtime.host import find_device
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.tvm_files import find_headers, find_runtime

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain]
VULKAN = "error: the package runs on a Vulkan device, and this machine cannot run it: "


def set_own_runtime(kind: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Name the runtime that Python has loaded for the kind of GPU to C++ programs; False if it is TVM's own."""
    with contextlib.suppress(TvmbuildError):  # without a device the runtime is loaded all the same
        find_device(kind)
    found = re.search(rf"/\S*libtvmbuild_{kind}\.so", Path("/proc/self/maps").read_text())
    if found is not None:
        monkeypatch.setenv(f"TVMBUILD_{kind.upper()}_LIBRARY", found[0])
    return found is not None


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs that use the library."""
    made = make_once("C++ devices", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_devices"))
    return made / "build"


@pytest.fixture
def package(kind: str, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A classifier for this machine's CPU, GPU or Vulkan device."""
    if kind != "llvm" and not set_own_runtime(kind, monkeypatch) and kind == "vulkan":
        pytest.skip("the Vulkan runtime is another than libtvmbuild_vulkan.so")
    host: Attributes = FrozenMap() if kind == "llvm" else HOST
    built = build_package(digits, tmp_path, attributes_of(kind), kind, host)
    return change_package(built, tmp_path / "m.tar", preprocess=Preprocess(color="gray"))


@pytest.fixture(scope="module")
def cpu_package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("digits"))


def claim(package: Path, path: Path, kind: str, attributes: Attributes = FrozenMap()) -> Path:
    """Write the package with another kind of target in its mod.json."""
    target = replace(read_metadata(package).target, kind=kind, attributes=attributes, host=ANY_X86)
    return change_package(package, path, target=target)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_stay_on_the_device(kind: str, package: Path, programs: Path, tmp_path: Path) -> None:
    (info,) = read_metadata(package).inputs
    picture = np.random.default_rng(3).uniform(0, 1, info.shape).astype(np.float32)
    (tmp_path / "0.in").write_bytes(picture.tobytes())
    done = run_program(programs / "devices", package, tmp_path, 50)
    assert done.returncode == 0, done.stderr
    with Session(package) as session:
        (want,) = session.run({info.name: picture}).values()
    got = np.frombuffer((tmp_path / "0.out").read_bytes(), np.float32).reshape(want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    here = {"llvm": "cpu:0"}.get(kind, f"{kind}:0")
    refused = [
        f"shifted on {here} is not contiguous and aligned: pass a copy of it",
        f"the input {info.name} is on device of type 4:3; the package runs on {here}",
        "net has 1 outputs, got room for 0",
        *([] if kind == "llvm" else [f"{info.name} is not in the host's memory"]),
    ]
    assert done.stdout.splitlines() == [
        f"inputs are in the host's memory: {int(kind == 'llvm')}",
        *(f"refused: {reason}" for reason in refused),
        "different 0",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_programs_say_what_python_says(kind: str, package: Path, tmp_path: Path) -> None:
    folder = install_programs() / "bin"
    Image.fromarray(np.random.default_rng(2).integers(0, 256, (40, 30, 3), np.uint8)).save(tmp_path / "p.ppm")
    done = run_program(folder / "run_model", package, tmp_path / "p.ppm")
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, package, tmp_path / "p.ppm")
    done = run_program(folder / "bench_model", package, package, "--repeat", 5)
    assert done.returncode == 0, done.stderr
    copies = f"  each call copies its inputs to the {kind} device, waits for it and copies its outputs back\n"
    assert done.stdout.count(copies) == (0 if kind == "llvm" else 2)


@pytest.mark.parametrize("kind", KINDS)
def test_what_serves_a_board_serves_a_device(package: Path, programs: Path) -> None:
    (info,) = read_metadata(package).inputs
    picture = np.random.default_rng(4).uniform(0, 1, info.shape).astype(np.float32)
    asked = b'{"do": "bind"}\n' + picture.tobytes() + b'{"do": "outputs"}\n{"do": "time", "repeat": 3, "number": 2}\n'
    command = [str(programs / "serve_model"), str(package), "1"]
    done = subprocess.run(command, input=asked, capture_output=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, b"")
    threads, bound, rest = done.stdout.split(b"\n", 2)
    assert (json.loads(threads), json.loads(bound)) == ({"threads": 1}, {})
    with Session(package) as session:
        (want,) = session.run({info.name: picture}).values()
    outputs = rest.removeprefix(b"{}\n")
    np.testing.assert_allclose(np.frombuffer(outputs[: want.nbytes], np.float32), want[0], rtol=1e-5, atol=1e-5)
    assert len(json.loads(outputs[want.nbytes :])["ms"]) == 3


@pytest.mark.parametrize("kind", KINDS[1:])
def test_eight_threads_have_a_session_each(kind: str, package: Path, programs: Path) -> None:
    done = run_program(programs / "threads", package, 20 if kind == "vulkan" else 200)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"runs [1-9]\d+ different 0 ", done.stdout), done.stdout


@pytest.mark.parametrize(("kind", "attributes"), [("cuda", {"arch": "sm_20"}), ("hexagon", {})])
def test_a_device_that_is_not_here_is_refused_as_in_python(
    cpu_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, attributes: dict[str, str]
) -> None:
    path = claim(cpu_package, tmp_path / "m.tar", kind, FrozenMap(attributes))
    set_own_runtime(kind, monkeypatch)
    with pytest.raises(TvmbuildError) as caught:
        Session(path)
    done = run_program(install_programs() / "bin" / "bench_model", path)
    assert done.returncode == 1
    message = caught.value.message
    # For a kind unknown to tvmbuild Python also has the loader's reason.
    assert done.stderr == f"error: {message if kind == 'cuda' else message.split(': ')[0]}\n"


def test_vulkan_without_its_runtime(cpu_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = claim(cpu_package, tmp_path / "m.tar", "vulkan")
    bench = install_programs() / "bin" / "bench_model"
    monkeypatch.delenv("TVMBUILD_VULKAN_LIBRARY", raising=False)
    missing = explain_driver(ask_driver().missing)
    absent = (
        "there is no libtvmbuild_vulkan.so beside the program or libtvm_runtime.so, and TVMBUILD_VULKAN_LIBRARY "
        "names none" + (f"; {missing}" if missing else "")
    )
    assert run_program(bench, path).stderr == f"{VULKAN}{absent}\n"
    monkeypatch.setenv("VK_DRIVER_FILES", "/no/driver.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/no/driver.json")
    monkeypatch.setenv("TVMBUILD_VULKAN_LIBRARY", str(tmp_path / "any.so"))
    missing = ask_driver().missing
    assert missing in ("loader", "driver")
    assert run_program(bench, path).stderr == f"{VULKAN}{explain_driver(missing)}\n"


def test_a_vulkan_runtime_that_fails(cpu_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ask_driver().missing is not None:
        pytest.skip("no Vulkan device answers")
    path, library = claim(cpu_package, tmp_path / "m.tar", "vulkan"), tmp_path / "libtvmbuild_vulkan.so"
    monkeypatch.setenv("TVMBUILD_VULKAN_LIBRARY", str(library))
    bench = install_programs() / "bin" / "bench_model"
    cases = {
        "int other(void) { return 0; }": f"{library} has no tvmbuild_vulkan_register",
        "int tvmbuild_vulkan_register(void) { return 0; }": f"{library} registered no runtime for vulkan",
        '#include <tvm/ffi/c_api.h>\nint tvmbuild_vulkan_register(void) { TVMFFIErrorSetRaisedFromCStr("RuntimeError", '
        '"the driver has Vulkan 1.0"); return -1; }': "the driver has Vulkan 1.0",
        'const char *tvmbuild_vulkan_failure(void) { return "made for another TVM"; }'
        "int tvmbuild_vulkan_register(void) { return -1; }": "made for another TVM",
    }
    assert run_program(bench, path).stderr == (
        f"{VULKAN}{library}: cannot open shared object file: No such file or directory\n"
    )
    for source, message in cases.items():
        (tmp_path / "plugin.c").write_text(source)
        command = ["gcc", "-shared", "-fPIC", f"-I{find_headers()}", str(tmp_path / "plugin.c"), "-o", str(library)]
        subprocess.run([*command, str(find_runtime()[1])], check=True)
        assert run_program(bench, path).stderr == f"{VULKAN}{message}\n"


@pytest.mark.parametrize("kind", KINDS[1:2])
def test_kernels_for_another_card_are_refused_as_in_python(package: Path, tmp_path: Path) -> None:
    target, major = read_metadata(package).target, read_arch().removeprefix("sm_")[:-1]
    refused = 0
    for arch in ("sm_20", f"sm_{major}9", f"sm_{major}0", f"sm_{major}0a", read_arch(), "", "compute_90"):
        changed = replace(target, attributes=FrozenMap({**target.attributes, "arch": arch}))
        path = change_package(package, tmp_path / "other.tar", target=changed)
        told = ""
        try:
            Session(path).close()
        except TvmbuildError as error:
            told = f"error: {error.message}\n"
            refused += 1
        done = run_program(install_programs() / "bin" / "bench_model", path, "--repeat", 1)
        assert (done.returncode, done.stderr) == (1 if told else 0, told), arch
    assert refused >= 1
