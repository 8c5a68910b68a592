"""The choice of the runtime, and the messages if a driver or a device is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.package.runtime.native_build import VULKAN
from tvmbuild.package.runtime.native_library import find_library

pytestmark = pytest.mark.compiler

PROJECT = Path(__file__).resolve().parents[4]
LOAD = """
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.library import call, has_function
from tvmbuild.package.runtime.vulkan import plugin
"""
EMPTY_MODULE = "call('ffi.Module.load_from_bytes.vulkan', b'tvmbSPV\\1' + bytes.fromhex('14000000 1cdf4421 00000000'))"


def run_python(code: str, *before: str, **environment: str) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", LOAD + code],
        env={**os.environ, "PYTHONPATH": str(PROJECT), **environment},
        cwd="/",  # Python looks there first
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_loaded_when_asked_for() -> None:
    code = "print(has_function('device_api.vulkan')); plugin.load_plugin(); plugin.load_plugin()\n"
    assert run_python(f"{code}print(has_function('device_api.vulkan'))").split() == ["False", "True"]


def test_never_where_the_environment_says_so() -> None:
    code = "plugin.load_plugin(); print(has_function('device_api.vulkan'))"
    assert run_python(code, TVMBUILD_VULKAN="tvm") == "False"


REGISTERED = "import tvm_ffi; tvm_ffi.register_global_func('device_api.vulkan', lambda: None)\n"


def test_a_tvm_that_has_vulkan_keeps_it() -> None:
    assert run_python(f"{REGISTERED}plugin.load_plugin(); print(has_function('tvmbuild_vulkan.devices'))") == "False"


def test_both_are_one_too_many() -> None:
    code = "try: plugin.load_plugin()\nexcept TvmbuildError as error: print(error.message)"
    told = run_python(REGISTERED + code, TVMBUILD_VULKAN="own")
    assert told == "TVMBUILD_VULKAN=own, but this TVM has a Vulkan runtime already"


def test_an_unknown_choice_is_refused() -> None:
    code = "try: plugin.load_plugin()\nexcept TvmbuildError as error: print(error)"
    told = run_python(code, TVMBUILD_VULKAN="ours").splitlines()
    assert told[0] == "TVMBUILD_VULKAN=ours chooses no runtime"
    assert told[1].startswith("  hint: write own or tvm, or unset it")


TRY = """
plugin.load_plugin()
print(call('runtime.GetDeviceAttr', 7, 0, 0))
try: call('tvmbuild_vulkan.devices')
except RuntimeError as error: print(error)
"""


def test_without_a_driver_modules_are_made_and_no_device_is_there() -> None:
    told = run_python(
        f"{TRY}print({EMPTY_MODULE}.kind)", VK_DRIVER_FILES="/nonexistent", VK_ICD_FILENAMES="/nonexistent"
    )
    exists, reason, kind = told.splitlines()
    assert (exists, kind) == ("0", "vulkan")
    assert reason.startswith("Vulkan: ")
    assert "driver" in reason or "loader" in reason


@pytest.mark.vulkan
def test_a_device_is_chosen_by_a_part_of_its_name_or_its_number() -> None:
    name = run_python("plugin.load_plugin(); print(call('runtime.GetDeviceAttr', 7, 0, 5))")
    for wish in ("0", name, name[1:5].upper()):
        assert run_python(TRY, TVMBUILD_VULKAN_DEVICE=wish) == "1", wish
    exists, reason = run_python(TRY, TVMBUILD_VULKAN_DEVICE="Voodoo 2").splitlines()
    assert exists == "0"
    assert reason.startswith("Vulkan: TVMBUILD_VULKAN_DEVICE=Voodoo 2 names no device; there are 0 ")
    assert name in reason


@pytest.mark.vulkan
@pytest.mark.root
def test_a_plain_user_can_use_it() -> None:
    machine = machine_of(platform.machine())
    with TemporaryDirectory() as folder:  # pytest's own are for their owner only
        package = Path(folder, "tvmbuild")
        shutil.copytree(PROJECT / "tvmbuild", package, ignore=shutil.ignore_patterns("__pycache__"))
        place = package / "package/runtime/vulkan/lib" / machine
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(find_library(VULKAN, machine), place)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if subprocess.run([*user, sys.executable, "-c", "import tvm_ffi"], check=False).returncode != 0:
            pytest.skip("another user cannot read this Python")
        assert run_python(TRY, *user, PYTHONPATH=folder, XDG_CACHE_HOME="/nonexistent") == "1"


@pytest.mark.vulkan
def test_it_is_checked_once_with_a_device() -> None:
    assert run_python("plugin.load_plugin(); plugin.check_device(0); print('right')") == "right"
    code = "plugin.load_plugin()\ntry: plugin.check_device(5)\nexcept TvmbuildError as error: print(error.message)"
    assert "there is no device 5" in run_python(code)
