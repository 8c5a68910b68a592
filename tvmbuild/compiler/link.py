"""Objects → shared library, with the bundled ziglang or a named compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax

from tvmbuild.compiler.cuda import compile_source, embed_cubin, find_source
from tvmbuild.compiler.elf import ElfFile, read_elf, version_tuple
from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import cache_dir
from tvmbuild.package.runtime.pool import SOURCE

DEFAULT_GLIBC = "2.28"
"""The floor where targets.yaml names none: Debian 10, Ubuntu 20.04, Raspberry Pi OS of 2020."""

# Every Linux process has these in its libc; libm and compiler-rt are not always there, so they are linked.
_IN_EVERY_LIBC = frozenset({"memcpy", "memmove", "memset", "memcmp", "malloc", "free", "abort", "strlen"})
_OF_THE_RUNTIME = ("TVMFFI", "TVMBackend")
_FLAGS = ("-shared", "--build-id=none", "-s")
_LIBRARIES = ("-nodefaultlibs", "-lm", "-lgcc")
"""For a compiler that is named: against this machine's libc, the pool would need the newest pthread_create."""
_POOL = "pool.o"
_POOL_FLAGS = ("-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-fno-sanitize=undefined")


@dataclass(frozen=True)
class LinkOptions:
    """``command`` is ``auto`` (ziglang) or a compiler's name; ``glibc`` the oldest version to run on."""

    command: str = "auto"
    glibc: str | None = None


def export_library(executable: relax.VMExecutable, target: tvm.target.Target, options: LinkOptions) -> bytes:
    """Return the executable, built for ``target``, as the bytes of a shared library; CUDA kernels in it are cubins.

    The same executable, options and tools give the same bytes: names inside are relative and fixed.
    """
    source = find_source(executable.mod) if target.kind.name == "cuda" else None
    cubin = compile_source(source, target) if source else b""
    with tempfile.TemporaryDirectory(prefix="tvmbuild-link-") as name:
        folder = Path(name)
        library = folder / "mod.so"

        def link(output: str, files: list[str], **_: object) -> None:
            if source:
                embed_cubin(folder / "devc.o", source, cubin)
            link_objects([Path(file) for file in files], Path(output), options)

        executable.export_library(str(library), fcompile=link, workspace_dir=str(folder))
        return library.read_bytes()


def link_objects(objects: Sequence[Path], output: Path, options: LinkOptions) -> None:
    """Link ``objects`` (all in ``output``'s folder) and check the machine and the glibc versions of the result."""
    read = [read_elf(path) for path in objects]
    machines = {elf.machine for elf in read}
    if len(machines) != 1:
        raise TvmbuildError(f"objects of different machines cannot be linked: {', '.join(sorted(machines))}")
    machine, glibc = machines.pop(), options.glibc or DEFAULT_GLIBC
    pool = compile_pool(output.with_name(_POOL), machine, glibc)
    command = _command(options, machine, glibc, _needs_libraries(read))
    libraries = _LIBRARIES if options.command != "auto" else ()
    _run([*command, "-o", output.name, *(path.name for path in objects), pool.name, *libraries], output.parent)
    _check(read_elf(output), machine, glibc if options.command == "auto" else options.glibc)


def compile_pool(output: Path, machine: str, glibc: str = DEFAULT_GLIBC) -> Path:
    """Compile the package's thread pool to an object file, about 0.1 s; all that it calls is in every Linux process."""
    shutil.copy(SOURCE, folder := output.parent)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{glibc}", "-c", *_POOL_FLAGS]
    _run([*command, "-o", output.name, SOURCE.name], folder)
    return output


def _needs_libraries(objects: Sequence[ElfFile]) -> bool:
    undefined = frozenset[str]().union(*(elf.undefined for elf in objects)) - _IN_EVERY_LIBC
    return any(not symbol.startswith(_OF_THE_RUNTIME) for symbol in undefined)


def _command(options: LinkOptions, machine: str, glibc: str, needs_libraries: bool) -> list[str]:
    linker_flags = [f"-Wl,{flag}" for flag in _FLAGS[1:]]
    if options.command != "auto":
        found = shutil.which(options.command)
        if found is None:
            raise TvmbuildError(
                f"the linker {options.command!r} is not on PATH",
                "install it, or set link: auto for the bundled ziglang",
            )
        return [found, "-shared", "-fPIC", *linker_flags]
    zig = [sys.executable, "-m", "ziglang"]
    if needs_libraries:
        return [*zig, "cc", "-target", f"{machine}-linux-gnu.{glibc}", "-shared", "-fPIC", *linker_flags, "-lm"]
    # 0.03 s instead of seconds, and no C library to build the first time.
    return [*zig, "ld.lld", *_FLAGS]


def _run(command: list[str], folder: Path) -> None:
    cache = str(cache_dir() / "zig")
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()
        raise TvmbuildError(
            f"linking failed: {' '.join(command[:6])} …: {output[-2000:]}", "tvmbuild doctor checks linkers"
        )


def _check(library: ElfFile, machine: str, glibc: str | None) -> None:
    if library.machine != machine:
        raise TvmbuildError(
            f"the linker made a library for {library.machine}, not {machine}", "name the cross compiler in link:"
        )
    if glibc is not None and library.glibc > version_tuple(glibc):
        needed = ".".join(str(part) for part in library.glibc)
        raise TvmbuildError(
            f"the library needs glibc {needed}, newer than the target's floor {glibc}",
            "use link: auto, or raise glibc:",
        )
