"""CUDA source → cubin inside the packed library.

Where TVM cannot load its CUDA runtime (no driver: every build machine without a GPU) it packs the kernels as source,
and loading the package then needs TVM's Python and a CUDA compiler on the device. So the kernels are compiled here and
put in the source's place: the packed bytes are `<size:u64> … <kind:str> <size:u64> <format:str> <functions>
<code:bytes>`, each str and bytes after its length (tvm-ffi's library_module.cc, TVM's cuda_fallback_module.cc).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tvm

from tvmbuild.compiler.elf import read_elf, read_symbol
from tvmbuild.errors import TvmbuildError

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
    """Return the CUDA source that the module's imports carry; None when there is none."""
    for imported in module.imports:
        source = imported.inspect_source("cuda") if imported.kind == "cuda" else find_source(imported)
        if source:
            return str(source)
    return None


def compile_source(source: str, target: tvm.target.Target) -> bytes:
    """Compile to a cubin for the target's arch, by NVRTC where cuda-bindings is installed, else by nvcc."""
    from tvm.support import nvcc  # noqa: PLC0415 - CUDA targets only

    compiler = cuda_compiler()
    if compiler is None:
        raise TvmbuildError("neither NVRTC nor nvcc is there to compile CUDA code", "pip install 'tvmbuild[cuda]'")
    try:
        with target, toolkit_headers():
            return bytes(nvcc.compile_cuda(source, target_format="cubin", compiler=compiler))
    except RuntimeError as error:
        # The message starts with the whole source.
        said = str(error).rpartition("Compilation error:")[2].strip()
        raise TvmbuildError(
            f"{compiler} refuses the generated CUDA code: {said[:500]}",
            "check arch and the limits of the target",
        ) from error


def cuda_compiler() -> str | None:
    """Return ``nvrtc``, ``nvcc`` or None."""
    if importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None:
        return "nvrtc"
    return "nvcc" if shutil.which("nvcc") else None


@contextlib.contextmanager
def toolkit_headers() -> Iterator[None]:
    """Within the context, ``CUDA_PATH`` names a CUDA toolkit, made of NVIDIA's PyPI packages where none is installed.

    NVRTC needs the toolkit's headers. TVM looks for them below `targets/<arch>-linux/include`, the packages put them
    into `nvidia/cu<major>/include`: a folder of links brings the two together.
    """
    packages = _pip_toolkit()
    if "CUDA_PATH" in os.environ or shutil.which("nvcc") or packages is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tvmbuild-cuda-") as folder:
        targets = Path(folder) / "targets"
        targets.mkdir()
        (Path(folder) / "include").symlink_to(packages / "include")
        (targets / f"{platform.machine()}-linux").symlink_to(packages)
        os.environ["CUDA_PATH"] = folder
        try:
            yield
        finally:
            del os.environ["CUDA_PATH"]


def _pip_toolkit() -> Path | None:
    """Return the folder that NVIDIA's packages share, `nvidia/cu13`; None when their headers are not installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = [path.parent.parent for folder in folders for path in folder.glob("cu*/include/cuda_runtime.h")]
    return max(found, default=None)


def embed_cubin(packed: Path, source: str, cubin: bytes) -> None:
    """Rewrite the object file ``packed`` (devc.o), which carries ``source``, so that it carries ``cubin``."""
    folder = packed.parent
    (folder / "devc.bin").write_bytes(replace_code(read_symbol(packed, _SYMBOL), source.encode(), cubin))
    (folder / "devc.s").write_text(_ASSEMBLY, encoding="ascii")
    target = f"{read_elf(packed).machine}-linux-gnu"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-c", "devc.s", "-o", packed.name]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def replace_code(packed: bytes, source: bytes, cubin: bytes) -> bytes:
    """Return the packed bytes with the CUDA module's format and code exchanged; all lengths are put right."""
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
