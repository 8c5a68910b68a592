"""Build programs of C with libtvmbuild.so."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cpp_programs import install_programs
from made_once import make_once

C_SOURCES = Path(__file__).parent / "c_programs"


def build_c_program(name: str, *flags: str, installed: Path | None = None) -> Path:
    """Build a program of ``c_programs`` with the strictest C11 that gcc knows, once; return its path."""
    prefix = installed or install_programs()

    def build(folder: Path) -> None:
        command = ["gcc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-g", *flags]
        command += [f"-I{prefix / 'include'}", str(C_SOURCES / f"{name}.c"), "-o", str(folder / name)]
        command += [f"-L{prefix / 'lib'}", "-ltvmbuild", "-lpthread", f"-Wl,-rpath,{prefix / 'lib'}"]
        subprocess.run(command, check=True)

    return make_once(("C program", name, flags, str(prefix)), build) / name
