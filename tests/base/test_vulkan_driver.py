from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tvmbuild.base.vulkan_driver import ask_driver, explain_driver, explain_runtime, list_vulkan_files

HAS_LOADER = ask_driver().missing != "loader"


def test_this_machine_has_devices_or_lacks_something() -> None:
    driver = ask_driver()
    assert bool(driver.devices) == (driver.missing is None)
    assert all(name.isprintable() and name for name in driver.devices)


@pytest.mark.skipif(not HAS_LOADER, reason="needs Vulkan's loader, libvulkan.so.1")
def test_a_loader_without_a_driver(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.json")
    code = "from tvmbuild.base.vulkan_driver import ask_driver; print(ask_driver().missing)"
    environment = {**os.environ, "VK_ICD_FILENAMES": absent, "VK_DRIVER_FILES": absent}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "driver"


@pytest.mark.parametrize(
    ("missing", "has_runtime", "begins"),
    [
        (None, True, None),
        (None, False, "the Vulkan runtime is not compiled, and no compiler is here; `pip install ziglang`"),
        ("loader", True, "Vulkan's loader libvulkan.so.1 is not installed; `apt install mesa-vulkan-drivers`"),
        ("driver", True, "Vulkan's loader finds no driver; `apt install mesa-vulkan-drivers`"),
        ("device", True, "Vulkan's driver finds no device; may this user read /dev/dri"),
    ],
)
def test_the_missing_half_is_named(missing: str | None, has_runtime: bool, begins: str | None) -> None:
    said = explain_runtime(missing, has_runtime=has_runtime)
    assert said is None if begins is None else str(said).startswith(begins)


def test_two_missing_halves_are_both_named() -> None:
    said = str(explain_runtime("driver", has_runtime=False))
    assert "the Vulkan runtime is not compiled" in said
    assert said.endswith(str(explain_driver("driver")))


def test_a_setting_that_leaves_our_runtime_out_goes_before_a_compiler() -> None:
    assert explain_runtime(None, has_runtime=False, left_out="unset it") == "unset it"
    assert explain_runtime(None, has_runtime=True, left_out="unset it") is None


def test_another_driver_is_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_vulkan_files()
    monkeypatch.setenv("VK_DRIVER_FILES", "/another.json")
    assert list_vulkan_files() != before
