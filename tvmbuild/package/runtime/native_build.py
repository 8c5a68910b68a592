"""Compilation of tvmbuild's own device runtimes with ziglang, for any machine. The wheel's build uses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.zig import DEFAULT_GLIBC, ZIG, run_linker, zig_target
from tvmbuild.package.tvm_files import find_headers

MACHINES = ("x86_64", "aarch64")
_RUNTIME = Path(__file__).parent
_SHARED = _RUNTIME / "native"
_FLAGS = (
    *("-shared", "-fPIC", "-O2", "-std=c++17", "-fvisibility=hidden", "-fno-sanitize=undefined"),
    *("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"),
    # The process has a C++ library already, TVM's.
    *("-nostdlib++", "-fno-exceptions", "-fno-rtti", "-funwind-tables", "-fno-threadsafe-statics"),
    "-s",
    "-Wl,--allow-shlib-undefined",  # TVM's libraries are in the process that loads it
)


@dataclass(frozen=True)
class NativeRuntime:
    """A device runtime of tvmbuild's own, written in C++."""

    kind: str
    """The target kind whose devices it runs, which is also the name of its folder."""
    title: str
    """The name of the kind in messages."""

    @property
    def library(self) -> str:
        """The file name of the compiled library."""
        return f"libtvmbuild_{self.kind}.so"

    @property
    def choice(self) -> str:
        """The environment variable that chooses between TVM's runtime (`tvm`) and this one (`own`)."""
        return f"TVMBUILD_{self.kind.upper()}"

    @property
    def api(self) -> str:
        """The global function through which TVM finds the kind's runtime, its own or tvmbuild's."""
        return f"device_api.{self.kind}"

    @property
    def devices(self) -> str:
        """The global function that only this runtime registers. It describes the devices as JSON."""
        return f"tvmbuild_{self.kind}.devices"

    @property
    def folder(self) -> Path:
        """The folder of the sources that only this runtime has."""
        return _RUNTIME / self.kind / "native"


VULKAN = NativeRuntime("vulkan", "Vulkan")
CUDA = NativeRuntime("cuda", "CUDA")
RUNTIMES = (VULKAN, CUDA)


def include_folders(runtime: NativeRuntime) -> tuple[Path, ...]:
    """Return the folders of the runtime's own sources and of the sources that all runtimes share."""
    return runtime.folder, _SHARED


def list_sources(runtime: NativeRuntime) -> list[Path]:
    """Return the C++ source files and headers of a runtime: its own and the shared ones, each sorted."""
    folders = include_folders(runtime)
    return [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in {".h", ".cpp"}]


def place_prebuilt(runtime: NativeRuntime, machine: str) -> Path:
    """Return the path where a wheel or a bundle has the library for a machine. The file may not exist."""
    return runtime.folder.with_name("lib") / machine / runtime.library


def compile_library(runtime: NativeRuntime, machine: str, folder: Path, *flags: str) -> Path:
    """Compile the library for a machine into the existing ``folder``, and return its path.

    ``flags`` are more options of the compiler. Raises TvmbuildError if the compiler fails.
    """
    library = folder / runtime.library
    sources = [str(path) for path in list_sources(runtime) if path.suffix == ".cpp"]
    target = ("-target", zig_target(machine, DEFAULT_GLIBC))
    include = [word for path in (*include_folders(runtime), find_headers()) for word in ("-I", str(path))]
    command = [*ZIG, "c++", *target, *_FLAGS, *flags, *include, *sources, "-o", str(library)]
    run_linker(command, folder)
    return library
