"""Compilation of CUDA source to a cubin, which replaces the source in the packed library.

If TVM cannot load its CUDA runtime (a build machine without a GPU has no driver), it packs the kernels as source,
and loading the package then needs TVM's Python and a CUDA compiler on the device. We therefore compile the kernels here
and put the cubin in the source's place. The packed bytes are `<size:u64> … <kind:str> <size:u64> <format:str>
<functions> <code:bytes>`; each str and bytes follows its length (tvm-ffi's library_module.cc, TVM's
cuda_fallback_module.cc).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import tvm
import tvm_ffi

from tvmbuild.base.cuda_versions import Version, ptx_version, read_version, show_version
from tvmbuild.base.nvrtc import Nvrtc, explain_install, find_nvrtc, list_pip_folders
from tvmbuild.base.zig import run_linker
from tvmbuild.compiler.codegen.elf import read_symbol
from tvmbuild.compiler.codegen.nvrtc import compile_by_nvrtc
from tvmbuild.compiler.machine.target import CudaCode, cuda_code
from tvmbuild.errors import TvmbuildError

_CUDA = "/usr/local/cuda"
_FIRST_WITHOUT_LATER_HEADERS = 11
"""The major version of the NVRTC that cannot read the headers of CUDA 13."""
PTX_MARK = b"tvmbuild PTX 1\0\0"
"""The last bytes of machine code with PTX after it."""
_SYMBOL = "__tvm_ffi__library_bin"
_ASSEMBLY = f"""\
.section .rodata,"a",@progbits
.balign 16
.globl {_SYMBOL}
.type {_SYMBOL}, @object
{_SYMBOL}:
.incbin "devc.bin"
.size {_SYMBOL}, . - {_SYMBOL}
.section .note.GNU-stack,"",@progbits
"""


def find_source(module: tvm.runtime.Module) -> str | None:
    """Return the CUDA source in the module's imports, or None if the imports contain no CUDA source."""
    for imported in module.imports:
        source = imported.inspect_source("cuda") if imported.kind == "cuda" else find_source(imported)
        if source:
            return str(source)
    return None


def compile_source(source: str, target: tvm.target.Target) -> bytes:
    """Compile CUDA source to machine code that the target's driver loads, by NVRTC, or by nvcc if there is no NVRTC.

    If the target asks for PTX, it follows the machine code (`append_ptx`). Raises TvmbuildError if there is no compiler
    of the driver's major version, or if the compiler rejects the source.
    """
    code = cuda_code(target)
    compiler = find_nvrtc(code.driver[0])
    try:
        if compiler is None:
            return _compile_by_nvcc(source, target, code)
        include = find_headers(compiler)
        cubin = compile_by_nvrtc(source, code.arch, compiler, include)
        if not code.with_ptx:
            return cubin
        ptx = compile_by_nvrtc(source, code.arch.replace("sm_", "compute_"), compiler, include)
        return append_ptx(cubin, lower_version(ptx, ptx_version(code.driver, code.arch)))
    except RuntimeError as error:
        # The compiler's message starts with the whole source and contains many warnings.
        said = str(error).rpartition("Compilation error:")[2].strip()
        said = said[max(0, said.find("error:")) :]
        name = f"NVRTC {show_version(compiler.version)}" if compiler else "nvcc"
        raise TvmbuildError(
            f"{name} refuses the generated CUDA code: {said[:500]}",
            "check arch, driver and the limits of the target",
        ) from error


_HINT = re.compile(rb'^\s*\.pragma "used_bytes_mask [^"\n]*";\n', re.MULTILINE)
"""A hint of PTX 8.3 about the bytes of a load that are used. A driver of CUDA 12.2 refuses PTX 8.0 that has it."""


def lower_version(ptx: bytes, version: Version) -> bytes:
    """Return the PTX with an earlier version in its head, so that drivers of that version compile it.

    The compiler always writes its own version, and hints for checkers that came later, which are left out. If a kernel
    used an instruction that came later, the driver would refuse it with a message.
    """
    found = re.search(rb"^\.version (\d+\.\d+)$", ptx, re.MULTILINE)
    if found is None:
        raise RuntimeError("the compiler writes PTX in another way than this release did")
    lower = min(version, read_version(found[1].decode()))
    return _HINT.sub(b"", ptx[: found.start(1)] + show_version(lower).encode() + ptx[found.end(1) :])


def append_ptx(cubin: bytes, ptx: bytes) -> bytes:
    """Return machine code with PTX after it: the cubin, the PTX with a zero at its end, its length and a mark.

    Drivers read machine code as an ELF file, and ignore what follows it. `native/blob.cpp` reads the end.
    """
    text = ptx.rstrip(b"\0") + b"\0"
    return cubin + text + struct.pack("<Q", len(text)) + PTX_MARK


def _compile_by_nvcc(source: str, target: tvm.target.Target, code: CudaCode) -> bytes:
    from tvm.support import nvcc  # noqa: PLC0415 - CUDA targets only

    command, install = shutil.which("nvcc"), explain_install(code.driver[0])
    if command is None or code.with_ptx:
        drivers = show_version(code.driver)
        raise TvmbuildError(
            f"NVRTC {code.driver[0]} is not there to compile CUDA code for drivers of {drivers}", install
        )
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release (\d+)\.", said)
    if release is not None and int(release[1]) != code.driver[0]:
        raise TvmbuildError(
            f"nvcc is of CUDA {release[1]}, whose code drivers of {show_version(code.driver)} may not load", install
        )
    with target, toolkit_headers():
        return bytes(nvcc.compile_cuda(source, target_format="cubin", compiler="nvcc"))


def find_headers(compiler: Nvrtc) -> list[Path]:
    """Return the folders of CUDA's headers for a compiler: its own first, then those of pip or of a toolkit.

    NVRTC 11 needs its own headers, and has no crt/mma.h; NVRTC 12 compiles those of CUDA 13.
    """
    folders = [compiler.headers, *(folder / "include" for folder in list_pip_folders())]
    named = [Path(os.environ["CUDA_PATH"]) / "include"] if "CUDA_PATH" in os.environ else []
    if compiler.version[0] == _FIRST_WITHOUT_LATER_HEADERS:
        folders.sort(key=lambda folder: "/cu13/" in folder.as_posix())
    found = [folder for folder in (*named, *folders, Path(_CUDA) / "include") if (folder / "cuda_fp16.h").is_file()]
    return list(dict.fromkeys(found))


@contextlib.contextmanager
def compile_with_tvm(target: tvm.target.Target) -> Iterator[None]:
    """Make TVM compile the kernels of a CUDA target with `compile_source` within the context.

    TVM compiles kernels itself only if the build machine has a GPU. The context does nothing for other kinds of
    targets.
    """
    if target.kind.name != "cuda":
        yield
        return
    from tvm.support import nvcc  # noqa: F401, PLC0415 - registers TVM's callback, which ours replaces

    tvm_ffi.register_global_func(
        "tvm_callback_cuda_compile", lambda code: compile_source(str(code), target), override=True
    )
    yield


@contextlib.contextmanager
def toolkit_headers() -> Iterator[None]:
    """Set ``CUDA_PATH`` within the context to the installed CUDA toolkit, or else to NVIDIA's PyPI packages.

    The context does nothing if ``CUDA_PATH`` is set already, or if there is neither a toolkit nor a package.

    NVRTC needs the toolkit's headers. TVM looks for them below `targets/<arch>-linux/include`; the packages put them
    into `nvidia/cu<major>/include`. A folder of links brings the two together.
    """
    installed, packages = _installed_toolkit(), _pip_toolkit()
    if "CUDA_PATH" in os.environ or (installed is None and packages is None):
        yield
        return
    if installed is not None:
        with _cuda_path(installed):
            yield
        return
    assert packages is not None  # noqa: S101 - else there is an installed toolkit
    with tempfile.TemporaryDirectory(prefix="tvmbuild-cuda-") as folder:
        targets = Path(folder) / "targets"
        targets.mkdir()
        (Path(folder) / "include").symlink_to(packages / "include")
        (targets / f"{platform.machine()}-linux").symlink_to(packages)
        with _cuda_path(Path(folder)):
            yield


@contextlib.contextmanager
def _cuda_path(folder: Path) -> Iterator[None]:
    os.environ["CUDA_PATH"] = str(folder)
    try:
        yield
    finally:
        del os.environ["CUDA_PATH"]


def _installed_toolkit() -> Path | None:
    """Return the folder of the CUDA toolkit that contains nvcc, or None if nvcc or the toolkit's headers are missing.

    TVM takes the folder above nvcc, but nvcc can be a wrapper script in another folder.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    folders = (Path(nvcc).resolve().parent.parent, Path(_CUDA))
    return next((folder for folder in folders if (folder / "include" / "cuda_runtime.h").is_file()), None)


def _pip_toolkit() -> Path | None:
    """Return the folder that NVIDIA's PyPI packages share (`nvidia/cu13`), or None if it has no CUDA headers."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = [path.parent.parent for folder in folders for path in folder.glob("cu*/include/cuda_runtime.h")]
    return max(found, default=None)


def carries_source(packed: Path, source: str) -> bool:
    """Return whether the object file ``packed`` contains the CUDA source; with a driver, it contains TVM's cubin."""
    return _sized(source.encode()) in read_symbol(packed, _SYMBOL)


def embed_cubin(packed: Path, source: str, cubin: bytes, compiler: Sequence[str]) -> None:
    """Replace the CUDA source ``source`` in the object file ``packed`` (devc.o) by the machine code ``cubin``.

    ``compiler`` is the command that assembles for the file's machine. Raises TvmbuildError if the command fails.
    """
    folder = packed.parent
    (folder / "devc.bin").write_bytes(replace_code(read_symbol(packed, _SYMBOL), source.encode(), cubin))
    (folder / "devc.s").write_text(_ASSEMBLY, encoding="ascii")
    run_linker([*compiler, "-c", "devc.s", "-o", packed.name], folder)


def replace_code(packed: bytes, source: bytes, cubin: bytes) -> bytes:
    """Return the packed bytes with the cubin in place of the CUDA source, and with all lengths corrected.

    Raises RuntimeError if the packed bytes have an unknown form.
    """
    head = _sized(b"cuda")
    start = packed.index(head) + len(head)
    (size,) = struct.unpack_from("<Q", packed, start)
    body = packed[start + 8 : start + 8 + size]
    tail = _sized(source)
    if not (body.startswith(head) and body.endswith(tail)):
        raise RuntimeError("TVM packs CUDA modules in another way than this release did")
    changed = _sized(b"cubin") + body[len(head) : -len(tail)] + _sized(cubin)
    rest = packed[8:start] + struct.pack("<Q", len(changed)) + changed + packed[start + 8 + size :]
    return struct.pack("<Q", len(rest)) + rest


def _sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data
