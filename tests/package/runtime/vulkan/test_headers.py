"""Our declarations of Vulkan, typed by hand, against Khronos' headers: all structures, numbers, handles, functions."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from tvmbuild.base import vulkan_driver
from tvmbuild.base.zig import ZIG
from tvmbuild.package.runtime.native_build import VULKAN, list_sources

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan_headers]
SDK = Path("/usr/include")
IN_PACKAGES = Path(vulkan_driver.__file__).parents[1] / "package/cpp/parts/vulkan_driver.h"
OURS = {path.name: path.read_text() for path in list_sources(VULKAN) if path.name.startswith("vulkan_")}
STRUCTURES = dict(re.findall(r"^struct (Vk\w+) \{\n(.*?)^\};", "".join(OURS.values()), re.MULTILINE | re.DOTALL))
NUMBERS = re.findall(r"\b(VK_\w+) =", "".join(OURS.values()))

KHRONOS = """
#include <cstddef>
#include <type_traits>
#define VK_USE_64_BIT_PTR_DEFINES 0
#include <vulkan/vulkan.h>
"""
IS_ALIKE = """
template <class T, class = size_t> constexpr size_t size_of = 0;
template <class T>
constexpr size_t size_of<T, std::enable_if_t<!std::is_void_v<T> && !std::is_function_v<T>, decltype(sizeof(T))>> =
    sizeof(T);

template <class T, class U>
constexpr bool is_alike() {
  using Pointed = std::remove_pointer_t<T>;
  using Other = std::remove_pointer_t<U>;
  return size_of<T> == size_of<U> && std::is_pointer_v<T> == std::is_pointer_v<U> &&
         std::is_pointer_v<Pointed> == std::is_pointer_v<Other> &&
         (size_of<Pointed> == size_of<Other> || size_of<Pointed> == 0 || size_of<Other> == 0);
}

template <class, class> constexpr bool are_alike = false;
template <class R, class S, class... T, class... U>
constexpr bool are_alike<R (*)(T...), S (*)(U...)> = [] {
  if constexpr (sizeof...(T) != sizeof...(U)) return false;
  else return is_alike<R, S>() && (is_alike<T, U>() && ...);
}();
"""


def list_members(body: str) -> list[str]:
    plain = re.sub(r"//.*|/\*.*?\*/|\[.*?\]|=[^;,]*", "", body)
    names = [each.split()[-1].lstrip("*") for each in re.split("[;,]", plain) if each.strip()]
    return [name for name in names if not name.startswith("gap_")]


def check_structures() -> list[str]:
    checks = []
    for name, body in STRUCTURES.items():
        checks.append(f"sizeof(tvmbuild::{name}) == sizeof(::{name})")
        for member in list_members(body):
            checks.append(f"offsetof(tvmbuild::{name}, {member}) == offsetof(::{name}, {member})")
            checks.append(f"sizeof(tvmbuild::{name}::{member}) == sizeof(::{name}::{member})")
    return checks


def check_handles() -> list[str]:
    dispatchable = re.findall(r"^typedef struct \w+ \*(Vk\w+);", OURS["vulkan_basics.h"], re.MULTILINE)
    others = re.findall(r"^typedef uint\d+_t (.*?);", OURS["vulkan_basics.h"], re.MULTILINE | re.DOTALL)
    names = [*dispatchable, *re.findall(r"Vk\w+", " ".join(others))]
    assert len(names) > len(dispatchable) > 0
    return [f"is_alike<tvmbuild::{name}, ::{name}>()" for name in names]


def check_functions() -> list[str]:
    code = OURS["vulkan_functions.h"]
    lists = re.findall(r"#define TVMBUILD_(INSTANCE|DEVICE)_FUNCTIONS\(X\)(.*?)\n\n", code, re.DOTALL)
    checks = [
        f"are_alike<decltype(tvmbuild::{kind.title()}Functions::{name}), PFN_vk{name}>"
        for kind, entries in lists
        for name in re.findall(r"\bX\((\w+),", entries)
    ]
    assert len(checks) == len(re.findall(r"^  X\(", code, re.MULTILINE)) > 40
    return [
        *checks,
        "are_alike<tvmbuild::CmdPushDescriptorSet, PFN_vkCmdPushDescriptorSetKHR>",
        "are_alike<tvmbuild::GetInstanceProcAddr, PFN_vkGetInstanceProcAddr>",
        "tvmbuild::make_version(1, 3) == VK_MAKE_API_VERSION(0, 1, 3, 0)",
        *(
            f"tvmbuild::version_{part}(0x7fffffff) == VK_API_VERSION_{part.upper()}(0x7fffffff)"
            for part in ("major", "minor", "patch")
        ),
    ]


def check_askers() -> list[str]:
    """Return checks of the code that asks for a driver before TVM is loaded: in C++ packages, and in Python."""
    theirs, python = "VkInstanceCreateInfo", vulkan_driver._InstanceInfo
    body = re.search(r"^struct VulkanInstanceInfo \{\n(.*?)^\};", IN_PACKAGES.read_text(), re.MULTILINE | re.DOTALL)
    assert body is not None
    names = zip(list_members(body[1]), python._fields_, list_members(STRUCTURES[theirs]), strict=True)
    checks = [f"sizeof(VulkanInstanceInfo) == sizeof({theirs})", f"{ctypes.sizeof(python)} == sizeof({theirs})"]
    for ours, (field, _), name in names:
        place = getattr(python, field)
        checks.append(f"offsetof(VulkanInstanceInfo, {ours}) == offsetof({theirs}, {name})")
        checks.append(f"sizeof(VulkanInstanceInfo::{ours}) == sizeof({theirs}::{name})")
        checks.append(f"{place.offset} == offsetof({theirs}, {name}) && {place.size} == sizeof({theirs}::{name})")
    properties, kind = "VkPhysicalDeviceProperties", "VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO"
    return [
        *checks,
        f"VulkanInstanceInfo().type == {kind} && {vulkan_driver._INSTANCE_INFO} == {kind}",
        f"{vulkan_driver._PROPERTIES_BYTES} >= sizeof({properties})",
        f"{vulkan_driver._NAME.start} == offsetof({properties}, deviceName)",
        f"{vulkan_driver._NAME.stop} == offsetof({properties}, deviceName) + sizeof({properties}::deviceName)",
    ]


def compile_checks(checks: list[str], folder: Path) -> str:
    """Return the compiler's errors; empty if all checks hold."""
    for name in ("vulkan", "vk_video"):
        if (SDK / name).is_dir():
            (folder / name).symlink_to(SDK / name)  # not the C library's headers beside them
    headers = (IN_PACKAGES, list_sources(VULKAN)[0].parent / "vulkan_functions.h")
    includes = "".join(f'#include "{path}"\n' for path in headers)
    using = "using tvmbuild::detail::VulkanInstanceInfo;\n"
    asserted = "".join(f"static_assert({check});\n" for check in checks)
    (folder / "check.cpp").write_text(KHRONOS + includes + IS_ALIKE + using + asserted)
    command = [
        *ZIG,
        "c++",
        "-std=c++17",
        "-Wno-invalid-offsetof",
        "-ferror-limit=0",
        "-c",
        "-I",
        str(folder),
        "check.cpp",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stderr


def test_declarations_are_khronos(tmp_path: Path) -> None:
    code = "".join(OURS.values())
    assert len(STRUCTURES) == len(re.findall(r"\bstruct Vk\w+ \{", code))
    assert set(NUMBERS) == set(re.findall(r"\bVK_\w+", code))
    numbers = [f"(long long)tvmbuild::{number} == (long long)::{number}" for number in NUMBERS]
    checks = [*check_structures(), *numbers, *check_handles(), *check_functions(), *check_askers()]
    assert compile_checks(checks, tmp_path) == ""


def test_wrong_declarations_are_noticed(tmp_path: Path) -> None:
    false = (
        "sizeof(tvmbuild::VkBufferCopy) == sizeof(::VkMemoryType)",
        "is_alike<tvmbuild::VkDevice *, ::VkDevice>()",
        "is_alike<const tvmbuild::VkBufferCopy *, const ::VkMemoryType *>()",
        "are_alike<decltype(tvmbuild::DeviceFunctions::FreeMemory), PFN_vkMapMemory>",
        "are_alike<decltype(tvmbuild::DeviceFunctions::CmdDispatch), PFN_vkCmdWriteTimestamp>",
        "are_alike<decltype(tvmbuild::DeviceFunctions::DestroyDevice), PFN_vkDeviceWaitIdle>",
    )
    assert compile_checks(list(false), tmp_path).count("error: static assertion failed") == len(false)
