"""The same tests on another way through the runtime, and with the layer that checks every call of Vulkan's.

The device here may have one memory with the CPU and push descriptors; others have neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vulkan

HERE = Path(__file__).parent
LAYERS = [Path(folder, "vulkan/explicit_layer.d") for folder in ("/usr/share", "/usr/local/share", "/etc")]
NEEDS_LAYER = pytest.mark.skipif(
    not any(folder.glob("*khronos_validation*") for folder in LAYERS), reason="no VK_LAYER_KHRONOS_validation"
)


def run_tests(*names: str, **environment: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-s", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(HERE / f"test_{name}.py") for name in names)],
        env={**os.environ, **environment},
        cwd=HERE.parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)
    assert "skipped" not in done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize("without", ["unified_memory", "push_descriptors", "unified_memory,push_descriptors"])
def test_what_another_device_lacks(without: str) -> None:
    run_tests("memory", "launch", "threads", TVMBUILD_VULKAN_WITHOUT=without)


@NEEDS_LAYER
@pytest.mark.parametrize("without", ["", "unified_memory,push_descriptors"])
def test_no_call_is_wrong(without: str) -> None:
    layer = {
        "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
        "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",  # barriers that are missing
        "TVMBUILD_VULKAN_WITHOUT": without,
    }
    told = run_tests("memory", "launch", "threads", "profile", **layer)
    errors = [line for line in told.splitlines() if re.match("(VUID|UNASSIGNED|SYNC-HAZARD)-", line.lstrip("."))]
    assert not errors, "\n".join(errors[:10])
