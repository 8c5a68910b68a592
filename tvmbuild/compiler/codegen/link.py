"""Linking of object files to a shared library, with the bundled ziglang or a named compiler."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import tvm
from tvm import relax

from tvmbuild.base.zig import DEFAULT_GLIBC, SYSTEMS, ZIG, run_linker, run_zig_cc, zig_target
from tvmbuild.compiler.codegen.cubin import carries_source, compile_source, embed_cubin, find_source
from tvmbuild.compiler.codegen.elf import ElfFile, read_elf, version_tuple
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.thread_pool import HOST_NAME, SOURCE

# Every Linux process has these functions in its libc. libm and compiler-rt may be missing, so they are linked.
_CALLED_BY_CODE = {"memcpy", "memmove", "memset", "memcmp", "malloc", "free", "abort", "strlen"}
_CALLED_BY_POOL = {"bcmp", "clock_gettime", "getpid", "sigdelset", "sigfillset", "syscall"}
_IN_EVERY_LIBC = _CALLED_BY_CODE | _CALLED_BY_POOL | {"pthread_create", "pthread_join", "pthread_sigmask"}
_OF_THE_RUNTIME = ("TVMFFI", "TVMBackend")
_RISCV_CALLS = "lp64d"
_FLAGS = ("-shared", "--build-id=none", "-s", f"-soname={HOST_NAME}")
_SHARED = ("-shared", "-fPIC", *(f"-Wl,{flag}" for flag in _FLAGS[1:]))
_LIBRARIES = ("-nodefaultlibs", "-lm", "-lgcc")
"""The libraries for a named compiler, without libc.

Linked against the build machine's libc, the thread pool would need the newest version of pthread_create.
"""
_PACKED = "devc.o"
"""TVM's name of the object file with a library's other modules."""
_POOL = "pool.o"
_POOL_FLAGS = ("-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector")
_ZIG_FLAGS = ("-fno-sanitize=undefined",)


@dataclass(frozen=True)
class LinkOptions:
    """The linker and the oldest glibc version that the library supports.

    ``command`` is ``auto`` (ziglang) or a compiler's name. If ``glibc`` is None, ziglang uses its default version, and
    the result of a named compiler is not checked.
    """

    command: str = "auto"
    glibc: str | None = None


def tools_here() -> LinkOptions:
    """Return the linker for a target without a named linker: zig, or the C compiler `cc` if zig is not installed."""
    return LinkOptions() if find_spec("ziglang") is not None else LinkOptions("cc")


def export_library(executable: relax.VMExecutable, target: tvm.target.Target, options: LinkOptions) -> bytes:
    """Link the executable, which was built for ``target``, and return the bytes of the shared library.

    CUDA kernels in it are cubins. The same executable, options and tools give the same bytes, because the names inside
    are relative and fixed. Raises TvmbuildError if a compiler or the linker fails.
    """
    source = find_source(executable.mod)
    with tempfile.TemporaryDirectory(prefix="tvmbuild-link-") as name:
        folder = Path(name)
        library = folder / "mod.so"

        def link(output: str, files: list[str], **_: object) -> None:
            compile_kernels([Path(file) for file in files], source, target, options)
            link_objects([Path(file) for file in files], Path(output), options)

        executable.export_library(str(library), fcompile=link, workspace_dir=str(folder))
        return library.read_bytes()


def compile_kernels(
    objects: Sequence[Path], source: str | None, target: tvm.target.Target, options: LinkOptions
) -> None:
    """Replace the CUDA ``source`` in the object file that TVM packs modules into, if it carries one, by a cubin.

    tvmbuild's CUDA runtime, in packages and in the tuner, loads no source.
    """
    for packed in objects:
        if source and packed.name == _PACKED and carries_source(packed, source):
            compiler = _choose_compiler(read_elf(packed).machine, options)
            embed_cubin(packed, source, compile_source(source, target), compiler)


def link_objects(objects: Sequence[Path], output: Path, options: LinkOptions) -> None:
    """Link ``objects`` (all in ``output``'s folder) and the thread pool to the shared library ``output``.

    Raises TvmbuildError if linking fails, or if the machine or the needed glibc version of the result is wrong.
    """
    read = [read_elf(path) for path in objects]
    machine, glibc = _find_machine(read), options.glibc or DEFAULT_GLIBC
    pool = compile_pool(output.with_name(_POOL), machine, options)
    files = ["-o", output.name, *(path.name for path in objects), pool.name]
    if options.command != "auto":
        run_linker([*_named_compiler(options.command), *files, *_LIBRARIES], output.parent)
    elif _needs_libraries([*read, read_elf(pool)]):
        run_zig_cc([*_SHARED, *files, "-lm"], zig_target(machine, glibc), output.parent)
    else:
        # Calling the linker directly takes 0.03 s instead of seconds, and builds no C library the first time.
        run_linker([*ZIG, "ld.lld", *_FLAGS, *files], output.parent)
    _check(read_elf(output), machine, glibc if options.command == "auto" else options.glibc)


def compile_pool(output: Path, machine: str, options: LinkOptions = LinkOptions()) -> Path:
    """Compile the package's thread pool to the object file ``output`` in about 0.1 s, and return ``output``.

    Every Linux process has the functions that the thread pool calls.
    """
    shutil.copy(SOURCE, folder := output.parent)
    compiler = _choose_compiler(machine, options)
    run_linker([*compiler, "-c", *_POOL_FLAGS, "-o", output.name, SOURCE.name], folder)
    return output


def _choose_compiler(machine: str, options: LinkOptions) -> list[str]:
    """Return the command that compiles to object files: zig if it is installed, else the named compiler."""
    if options.command == "auto" or find_spec("ziglang") is not None:
        return [*ZIG, "cc", "-target", zig_target(machine, options.glibc or DEFAULT_GLIBC), *_ZIG_FLAGS]
    return [_find_compiler(options.command)]


def _find_machine(objects: Sequence[ElfFile]) -> str:
    machines = {elf.machine for elf in objects}
    if len(machines) != 1:
        raise TvmbuildError(f"objects of different machines cannot be linked: {', '.join(sorted(machines))}")
    machine = machines.pop()
    if machine not in SYSTEMS:
        raise TvmbuildError(f"code for {machine} cannot be linked", f"targets are for {', '.join(SYSTEMS)}")
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
    return [_find_compiler(command), *_SHARED]


def _find_compiler(command: str) -> str:
    found = shutil.which(command)
    if found is None:
        raise TvmbuildError(
            f"the linker {command!r} is not on PATH", "install it, or set link: auto for the bundled ziglang"
        )
    return found


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
