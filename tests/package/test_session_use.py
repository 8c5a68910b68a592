"""The promises of a Session besides numbers: memory, threads, an end, and the libraries that it needs."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from small_disk import mount_disk
from small_package import TAR_FILTER, build_package, change_package

import tvmbuild
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_package, write_package
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.tensors import place, read_array

pytestmark = pytest.mark.compiler
SHAPE = (1, 1, 28, 28)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("use"))


def output(session: Session, value: Any) -> np.ndarray:
    return session.run({"Input3": value})["Plus214_Output_0"]


def random_input(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 1, SHAPE).astype(np.float32)


def count_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_loading_and_running_needs_neither_onnx_nor_the_compiler(package: Path) -> None:
    program = """
import sys, tvmbuild
assert not {"numpy", "tvm", "tvm_ffi", "PIL"} & set(sys.modules), "import tvmbuild is not cheap"
with tvmbuild.load(sys.argv[1]) as session:
    (value,) = session.run({"Input3": session.empty("Input3") * 0}).values()
print(value.shape, sorted({"onnx", "onnxruntime", "tvm", "rich", "jsonschema", "psutil"} & set(sys.modules)))
print("libtvm_compiler" in open("/proc/self/maps").read())
"""
    environment = {name: value for name, value in os.environ.items() if name != "TVM_USE_RUNTIME_LIB"}
    command = [sys.executable, "-c", program, str(package)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(1, 10) []", "False"]


def test_a_session_imports_only_what_it_uses_and_tvm_ffi_stays_whole(package: Path) -> None:
    program = """
import sys, tvmbuild
LATER = {"typing_extensions"} if sys.version_info < (3, 11) else set()
with tvmbuild.load(sys.argv[1]) as session:
    session.run({"Input3": session.empty("Input3") * 0})
print(sorted({"concurrent.futures", "importlib.metadata", "statistics", "subprocess", "tarfile", "tvmbuild.base.specs",
              "tvmbuild.package.results", "tvmbuild.package.size_functions", "tvm_ffi.cpp",
              "tvm_ffi.dataclasses.gen_abi_cpp", "typing_extensions"} & set(sys.modules) - LATER))
import tvm_ffi, tvm_ffi.cpp, typing_extensions
print(callable(tvm_ffi.cpp.load_inline), tvm_ffi.libinfo.im.version("apache-tvm-ffi") == tvm_ffi.__version__)
made = [tvm_ffi.dataclasses.gen_abi_cpp([]) for _ in range(2)], tvm_ffi.dataclasses.gen_abi_cpp
print(made[0][0] == made[0][1], made[1].__module__, hasattr(typing_extensions, "__file__"))
print(tvm_ffi.libinfo.find_libtvm_ffi().endswith("libtvm_ffi.so"), __import__("gc").isenabled())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(package)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[]",
        "True True",
        "True tvm_ffi.dataclasses.gen_abi_cpp True",
        "True True",
    ]


def test_the_first_load_of_a_process_explains_a_damaged_package_too(package: Path, tmp_path: Path) -> None:
    content = bytearray(package.read_bytes())
    content[-40_000] ^= 1
    (tmp_path / "net.tar").write_bytes(content)
    program = "import sys, tvmbuild, tvmbuild.errors\n"
    program += "try: tvmbuild.load(sys.argv[1])\nexcept tvmbuild.errors.TvmbuildError as error: print(error.message)"
    for name, told in (("net.tar", "net.tar is damaged: mod."), ("none.tar", "none.tar: no such package")):
        command = [sys.executable, "-c", program, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stdout.startswith(told), done.stderr) == (0, True, ""), done


def test_load_is_a_session_with_what_the_package_says(package: Path, tmp_path: Path) -> None:
    rules = Preprocess(color="gray")
    with tvmbuild.load(str(change_package(package, tmp_path / "p.tar", preprocess=rules)), threads=1) as session:
        assert isinstance(session, Session)
        assert session.metadata.model == "net"
        assert session.metadata.preprocess == rules
        assert session.threads == 1
        picture = np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)
        tensor = session.preprocess(picture)
        assert np.array_equal(tensor, picture.reshape(SHAPE).astype(np.float32) / np.float32(255))
        assert np.array_equal(output(session, tensor), output(session, tensor.copy()))


def test_memory_that_fits_is_used_in_place_and_other_is_copied(package: Path) -> None:
    session = Session(package)
    own = session.empty("Input3")
    own[...] = random_input(1)
    assert own.ctypes.data % 64 == 0

    def address(value: Any) -> int:
        return int(place("Input3", read_array("Input3", value), session._device, {}).data_ptr())

    assert address(own) == own.ctypes.data
    shared = SharedByDlpack(own)
    assert address(shared) == own.ctypes.data
    memory = np.empty(own.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64 + 4
    misaligned = memory[start : start + own.nbytes].view(np.float32).reshape(SHAPE)
    misaligned[...] = own
    frozen = own.copy()
    frozen.flags.writeable = False
    turned = np.ascontiguousarray(own.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    for value in (misaligned, frozen, turned, SharedByDlpack(misaligned), SharedByDlpack(turned)):
        assert address(value) not in (own.ctypes.data, misaligned.ctypes.data)
        assert np.array_equal(output(session, value), output(session, own))
    assert np.array_equal(output(session, shared), output(session, own))


class SharedByDlpack:
    """Another framework's tensor as a Session sees it: not a NumPy array, but with DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_shared_tensors_that_do_not_fit_are_named(package: Path) -> None:
    session = Session(package)
    with pytest.raises(TvmbuildError, match=r"Input3 of net is float32 \[1, 1, 28, 28\], got float32 \[28, 28\]"):
        output(session, SharedByDlpack(np.zeros((28, 28), np.float32)))
    with pytest.raises(TvmbuildError, match=r"got float64 \[1, 1, 28, 28\]"):
        output(session, SharedByDlpack(np.zeros(SHAPE)))
    with pytest.raises(TvmbuildError, match="the input Input3 cannot be shared by DLPack: "):
        output(session, SharedByDlpack(np.zeros(SHAPE, ">f4")))
    with pytest.raises(TvmbuildError, match="net has no input x; its inputs are Input3"):
        session.empty("x")


def test_outputs_are_never_the_memory_of_inputs(package: Path) -> None:
    session = Session(package)
    given = session.empty("Input3")
    given[...] = random_input(0)
    before = given.copy()
    got = output(session, given)
    got[...] = 7
    assert np.array_equal(given, before)
    assert not np.array_equal(output(session, given), got)


def test_eight_threads_share_a_session_and_have_their_own_numbers(package: Path) -> None:
    values = [random_input(seed) for seed in range(8)]
    with Session(package, 1) as alone:
        want = [output(alone, value) for value in values]
    session = Session(package)
    others = [Session(package) for _ in range(2)]
    meeting = threading.Barrier(8, timeout=60)
    wrong: list[int] = []
    busy = [0]
    together: list[int] = []

    def work(index: int) -> None:
        meeting.wait()
        for turn in range(60):
            busy[0] += 1
            got = output(others[turn % 2] if turn % 3 == 0 else session, values[index])
            together.append(busy[0])
            busy[0] -= 1
            if not np.allclose(got, want[index], rtol=1e-5, atol=1e-5):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(together) == 8 * 60  # no thread died
    assert wrong == []
    assert max(together) > 1, "no two calls were under way at once"


def test_a_copied_input_is_written_into_the_memory_of_the_last_call() -> None:
    memory, kept, device = np.zeros(9, np.float32)[1:], dict[str, Any](), tvm_ffi.device("cpu", 0)
    places = set()
    for number in (1, 2):
        memory[...] = number
        tensor = place("x", memory, device, kept)
        places.add(tensor.data_ptr())
        np.testing.assert_array_equal(np.from_dlpack(tensor), memory)
    assert len(places) == 1
    assert kept["x"].flags.writeable  # np.from_dlpack gives read-only memory before NumPy 2.1


def test_many_runs_and_sessions_leave_nothing_behind(package: Path) -> None:
    value, mapped = random_input(0), list_mapped()  # a session of another test may wait for the garbage collector

    def use(times: int) -> None:
        with Session(package) as session:
            for _ in range(times):
                output(session, value)

    use(50)
    threads, before = count_threads(), resident_kb()
    for _ in range(10):
        use(100)
    end = time.monotonic() + 20
    while count_threads() > threads:  # a thread that has ended is counted a moment longer
        assert time.monotonic() < end, "the pool's threads outlive their sessions"
    assert resident_kb() - before < 8_000
    assert list_mapped() <= mapped


def list_mapped() -> set[str]:
    """Return the folders of the sessions whose libraries are mapped."""
    return set(re.findall(r"tvmbuild-session-\w+", Path("/proc/self/maps").read_text()))


def resident_kb() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1])


def test_a_closed_session_says_so_and_closes_again(package: Path) -> None:
    session = Session(package)
    session.close()
    session.close()
    with pytest.raises(TvmbuildError, match="the session of net is closed"):
        output(session, random_input(0))


def test_the_latency_of_made_up_and_of_given_inputs(package: Path) -> None:
    with Session(package) as session:
        one = session.benchmark(repeat=3, number=2)
        assert (one.repeat, one.number) == (3, 2)
        assert 0 < one.min <= one.median <= one.max
        assert session.benchmark({"Input3": random_input(0)}, repeat=1).std == 0


def test_threads_are_the_callers_choice_within_reason(package: Path) -> None:
    for wrong in (0, available_cores() + 1):
        with pytest.raises(TvmbuildError, match=f"{wrong} threads were asked for"):
            Session(package, wrong)


@pytest.mark.skipif(available_cores() < 2, reason="one core")
@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["run", "--threads", "2"], {}, "2 threads were asked for, and this process may use 1 core"),
        (["bench", "--vs", "{package}", "--threads", "2"], {}, "2 threads were asked for, and this process may use 1"),
        (["load"], {"TVM_NUM_THREADS": "2"}, "TVM_NUM_THREADS asks for 2 threads, and this process may use 1 core"),
    ],
)
def test_cores_are_those_that_the_process_may_use(
    package: Path, arguments: list[str], variables: dict[str, str], said: str
) -> None:
    code = f"import tvmbuild; tvmbuild.load({str(package)!r})"
    told = [word.format(package=package) for word in (*arguments, "{package}")]
    command = ["-c", code] if arguments == ["load"] else ["-m", "tvmbuild", *told]
    core = min(os.sched_getaffinity(0))
    taskset = f"import os, sys; os.sched_setaffinity(0, {{{core}}}); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", taskset, sys.executable, *command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr


def test_a_folder_or_file_called_torch_beside_the_script_is_not_pytorch(package: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import tvmbuild\ntvmbuild.load({str(package)!r})\nimport torch\nprint(torch.__name__)\n")
    for name in ("torch/models.txt", "torch.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "torch\n"), done.stderr
        shutil.rmtree(tmp_path / "torch", ignore_errors=True)


_TORCH = """
class Tensor:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **options): return self.array.__dlpack__(**options)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
"""
_LATE_TORCH = """
import sys, numpy, tvmbuild
session = tvmbuild.load(sys.argv[1])
(info,) = session.inputs
array = numpy.zeros(info.shape, info.dtype)
want = session.run({info.name: array})
assert "torch" not in sys.modules
import torch, tvm_ffi
got = session.run({info.name: torch.Tensor(array)})
assert tvm_ffi._convert.torch is torch and "tvm_ffi._optional_torch_c_dlpack" in sys.modules
assert all((got[name] == want[name]).all() for name in want)
"""


def test_pytorch_is_not_imported_before_the_program_does_so(package: Path, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(_TORCH)
    (tmp_path / "torch/version.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"}
    command = [sys.executable, "-c", _LATE_TORCH, str(package)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.mount
def test_a_temporary_folder_mounted_noexec_is_told_with_the_variable(package: Path, tmp_path: Path) -> None:
    with mount_disk(tmp_path / "noexec", "noexec") as folder:
        command = [sys.executable, "-m", "tvmbuild", "run", str(package)]
        environment = {**os.environ, "TMPDIR": str(folder)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{folder} is mounted noexec: no library can be loaded from there" in done.stderr
    assert "Set TMPDIR to" in done.stderr
    assert "build it again" not in done.stderr


def broken(package: Path, path: Path, **changes: Any) -> Path:
    write_package(path, replace(read_package(package), **changes))
    return path


def test_contents_that_tvm_cannot_load_are_errors(package: Path, tmp_path: Path) -> None:
    good = read_package(package)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"library": b"text"}, "mod.so cannot be loaded: it is no 64-bit ELF file"),
        ({"library": good.library[:4000]}, "mod.so cannot be loaded: it is cut short"),
        ({"library": good.library[:100]}, "mod.so cannot be loaded: it is cut short"),
        ({"library": b""}, "mod.so cannot be loaded: it is no 64-bit ELF file"),
        ({"library": Path(sys.executable).resolve().read_bytes()}, "mod.so cannot be loaded: "),
        ({"params": b"text"}, "mod.params cannot be read: "),
        ({"params": good.params[:20]}, "mod.params cannot be read: "),
        ({"info": replace(good.info, inputs=())}, "the package of net does not fit together: its code takes "),
        ({"info": replace(good.info, params="embedded")}, "the package of net does not fit together: "),
        ({"info": replace(good.info, entry="other")}, "the package of net has no function other"),
    ]
    for changes, message in cases:
        with pytest.raises(TvmbuildError) as caught:
            Session(broken(package, tmp_path / "b.tar", **changes))
        assert caught.value.message.startswith(message)


def test_the_files_of_an_unpacked_package_are_the_old_layout(package: Path, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(package.read_bytes())) as archive:
        archive.extractall(tmp_path, **TAR_FILTER)  # noqa: S202 - our own
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mod.json", "mod.params", "mod.so"]


def test_a_number_of_threads_that_is_none_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "many")
    with pytest.raises(TvmbuildError, match="TVM_NUM_THREADS is 'many', not a number"):
        Session(package)
