"""Build programs of C with libtvmbuild.so, and list the layouts of its structs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cpp_programs import SOURCES, install_programs
from made_once import make_once

C_SOURCES = Path(__file__).parent / "c_programs"
HEADER = SOURCES.parent / "c" / "tvmbuild.h"
STRICT = ["gcc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"]
_PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(theirs LANGUAGES C)
find_package(tvmbuild 0.1 REQUIRED)
add_executable(misuse misuse.c)
target_link_libraries(misuse PRIVATE tvmbuild::c)
"""


def build_c_program(name: str, *flags: str, installed: Path | None = None) -> Path:
    """Build a program of ``c_programs`` with the strictest C11 that gcc knows, once; return its path."""
    prefix = installed or install_programs()

    def build(folder: Path) -> None:
        command = [*STRICT, "-O1", "-g", *flags, f"-I{prefix / 'include'}", str(C_SOURCES / f"{name}.c")]
        command += ["-o", str(folder / name), f"-L{prefix / 'lib'}", "-ltvmbuild", "-lpthread"]
        subprocess.run([*command, f"-Wl,-rpath,{prefix / 'lib'}"], check=True)

    return make_once(("C program", name, flags, str(prefix)), build) / name


def write_c_project(folder: Path, installed: Path) -> Path:
    """Build misuse.c as a CMake project in C that finds the installed library; return the program."""
    folder.mkdir()
    for name in ("misuse.c", "checked.h"):
        (folder / name).symlink_to(C_SOURCES / name)
    (folder / "CMakeLists.txt").write_text(_PROJECT)
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    for command in (
        ["-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={installed}"],
        ["--build", str(folder / "build")],
    ):
        subprocess.run(["cmake", *command], env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder / "build" / "misuse"


def list_layouts() -> dict[str, Any]:
    """Return the size of each struct of tvmbuild.h, and name, offset and size of its fields, as gcc lays them out."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.DOTALL)
    lines = []
    for name, body in found:
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in re.findall(r"(\w+)(?=[,;])", body):
            values = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
            lines.append(f'printf("{field} %zu %zu\\n", {values});')
    program = "#include <stdio.h>\n#include <tvmbuild.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "layouts.c").write_text(program)
        command = [*STRICT, f"-I{HEADER.parent}", f"{folder}/layouts.c", "-o", f"{folder}/layouts"]
        subprocess.run(command, check=True)
        printed = subprocess.run([f"{folder}/layouts"], capture_output=True, text=True, check=True).stdout
    layouts: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for words in map(str.split, printed.splitlines()):
        if len(words) == len(["struct", "size"]):
            layouts[words[0]] = fields = {"size": int(words[1]), "fields": []}
        else:
            fields["fields"].append([words[0], int(words[1]), int(words[2])])
    return layouts


def write_inputs(folder: Path, inputs: Mapping[str, np.ndarray]) -> None:
    """Write the inputs of call_by_ctypes.py."""
    np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)


def call_by_ctypes(job: str, *arguments: object) -> Any:
    """Run a job of call_by_ctypes.py in a process without TVM's Python package; return what it prints."""
    command = [sys.executable, str(C_SOURCES / "call_by_ctypes.py"), str(install_programs() / "lib/libtvmbuild.so.1")]
    done = subprocess.run([*command, job, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
