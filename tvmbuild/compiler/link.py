"""Objects → shared library, with the bundled ziglang or a named compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import tvm
from tvm import relax

from tvmbuild.compiler.cuda import compile_source, embed_cubin, find_source
from tvmbuild.compiler.elf import ElfFile, read_elf, version_tuple
from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import cache_dir
from tvmbuild.package.runtime.pool import SOURCE
from tvmbuild.progress import report_progress

DEFAULT_GLIBC = "2.28"
"""The floor where targets.yaml names none: Debian 10, Ubuntu 20.04, Raspberry Pi OS of 2020."""

# Every Linux process has these in its libc; libm and compiler-rt are not always there, so they are linked.
_CALLED_BY_CODE = {"memcpy", "memmove", "memset", "memcmp", "malloc", "free", "abort", "strlen"}
_CALLED_BY_POOL = {"clock_gettime", "getpid", "sigdelset", "sigfillset", "syscall"}
_IN_EVERY_LIBC = _CALLED_BY_CODE | _CALLED_BY_POOL | {"pthread_create", "pthread_join", "pthread_sigmask"}
_OF_THE_RUNTIME = ("TVMFFI", "TVMBackend")
_SYSTEMS = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "arm": "arm-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
}
"""zig's name of the Linux of each machine; of 32-bit ARM's two, that of Debian armhf and Raspberry Pi OS."""
_RISCV_CALLS = "lp64d"
_ZIG = (sys.executable, "-m", "ziglang")
_FLAGS = ("-shared", "--build-id=none", "-s")
_SHARED = ("-shared", "-fPIC", *(f"-Wl,{flag}" for flag in _FLAGS[1:]))
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
    machine, glibc = _find_machine(read), options.glibc or DEFAULT_GLIBC
    pool = compile_pool(output.with_name(_POOL), machine, glibc)
    files = ["-o", output.name, *(path.name for path in objects), pool.name]
    if options.command != "auto":
        _run([*_named_compiler(options.command), *files, *_LIBRARIES], output.parent)
    elif _needs_libraries([*read, read_elf(pool)]):
        _run_zig_cc([*_SHARED, *files, "-lm"], _zig_target(machine, glibc), output.parent)
    else:
        # 0.03 s instead of seconds, and no C library to build the first time.
        _run([*_ZIG, "ld.lld", *_FLAGS, *files], output.parent)
    _check(read_elf(output), machine, glibc if options.command == "auto" else options.glibc)


def compile_pool(output: Path, machine: str, glibc: str = DEFAULT_GLIBC) -> Path:
    """Compile the package's thread pool to an object file, about 0.1 s; all that it calls is in every Linux process."""
    shutil.copy(SOURCE, folder := output.parent)
    command = [*_ZIG, "cc", "-target", _zig_target(machine, glibc), "-c", *_POOL_FLAGS]
    _run([*command, "-o", output.name, SOURCE.name], folder)
    return output


def _zig_target(machine: str, glibc: str) -> str:
    return f"{_SYSTEMS[machine]}.{glibc}"


def _find_machine(objects: Sequence[ElfFile]) -> str:
    machines = {elf.machine for elf in objects}
    if len(machines) != 1:
        raise TvmbuildError(f"objects of different machines cannot be linked: {', '.join(sorted(machines))}")
    machine = machines.pop()
    if machine not in _SYSTEMS:
        raise TvmbuildError(f"code for {machine} cannot be linked", f"targets are for {', '.join(_SYSTEMS)}")
    odd = {elf.calls for elf in objects} - {"", _RISCV_CALLS}
    if odd:
        raise TvmbuildError(
            f"the target's functions are called as {odd.pop()}, those of Linux distributions as {_RISCV_CALLS}",
            "write `mattr: [+m, +a, +f, +d, +c]` and `mabi: lp64d` in targets.yaml",
        )
    return machine


def _needs_libraries(objects: Sequence[ElfFile]) -> bool:
    undefined = frozenset[str]().union(*(elf.undefined for elf in objects)) - _IN_EVERY_LIBC
    return any(not symbol.startswith(_OF_THE_RUNTIME) for symbol in undefined)


def _named_compiler(command: str) -> list[str]:
    found = shutil.which(command)
    if found is None:
        raise TvmbuildError(
            f"the linker {command!r} is not on PATH", "install it, or set link: auto for the bundled ziglang"
        )
    return [found, *_SHARED]


def _run_zig_cc(arguments: list[str], target: str, folder: Path) -> None:
    """Link against the C library of ``target``, which zig builds when it is first asked for it: 17 to 30 s."""
    built = _zig_cache() / f"{target}-{version('ziglang')}.built"
    if not built.exists():
        report_progress(f"linking; zig builds the C library of {target} first, once: about half a minute")
    _run([*_ZIG, "cc", "-target", target, *arguments], folder)
    built.touch()


def _zig_cache() -> Path:
    named = os.environ.get("ZIG_GLOBAL_CACHE_DIR")
    return Path(named) if named else cache_dir() / "zig"


def _run(command: list[str], folder: Path) -> None:
    cache = str(_zig_cache())
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
