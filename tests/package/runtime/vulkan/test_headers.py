"""Our declarations of Vulkan's structures and numbers, against the headers of a Vulkan SDK where there are some."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tvmbuild.package.runtime.vulkan.build import list_sources

SDK = Path("/usr/include")
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(not (SDK / "vulkan/vulkan.h").is_file(), reason="no headers of Vulkan"),
]


def write_checks() -> list[str]:
    """Return an assertion for the size of each structure, each member's place, and each number."""
    checks = []
    headers = {path.name: path.read_text() for path in list_sources() if path.name.startswith("vulkan_")}
    code = "".join(headers[f"vulkan_{name}.h"] for name in ("basics", "devices", "commands"))
    for name, body in re.findall(r"^struct (Vk\w+) \{\n(.*?)^\};", code, re.MULTILINE | re.DOTALL):
        checks.append(f"static_assert(sizeof(tvmbuild::{name}) == sizeof(::{name}));")
        for line in body.splitlines():
            members = [re.sub(r"\[.*?\]", "", each).split()[-1].lstrip("*") for each in line.rstrip(";").split(",")]
            checks += [
                f"static_assert(offsetof(tvmbuild::{name}, {member}) == offsetof(::{name}, {member}));"
                for member in members
                if not member.startswith("gap_") and member != "sparseProperties"
            ]
    for number in re.findall(r"^  (VK_\w+) = ", code, re.MULTILINE):
        checks.append(f"static_assert((long long)tvmbuild::{number} == (long long)::{number});")
    return checks


def test_sizes_places_and_numbers(tmp_path: Path) -> None:
    checks = write_checks()
    assert len(checks) > 300
    for name in ("vulkan", "vk_video"):
        if (SDK / name).is_dir():
            (tmp_path / name).symlink_to(SDK / name)  # not the C library's headers beside them
    folder = list_sources()[0].parent
    includes = [f'#include "{folder}/{name}"' for name in ("vulkan_devices.h", "vulkan_commands.h")]
    source = tmp_path / "check.cpp"
    source.write_text("\n".join(["#include <cstddef>", "#include <vulkan/vulkan.h>", *includes, *checks]))
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "c++",
        "-std=c++17",
        "-c",
        "-I",
        str(tmp_path),
        str(source),
        "-o",
        "check.o",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
