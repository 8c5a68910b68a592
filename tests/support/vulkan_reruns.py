"""The Vulkan runtime's tests, run again with another device, driver or setting."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nights import ALL, VARIABLE

PROJECT = Path(__file__).resolve().parents[2]
LAYERS = [Path(folder, "vulkan/explicit_layer.d") for folder in ("/usr/share", "/usr/local/share", "/etc")]
NEEDS_LAYER = pytest.mark.skipif(
    not any(folder.glob("*khronos_validation*") for folder in LAYERS), reason="no VK_LAYER_KHRONOS_validation"
)
LAYER = {
    "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",  # missing barriers
}


def run_tests(*names: str, **environment: str) -> str:
    """Run files of tests/package/runtime/vulkan; return all their output."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-s", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"tests/package/runtime/vulkan/test_{name}.py" for name in names)],
        env={**os.environ, **environment, VARIABLE: ALL},  # a rerun tonight runs all of them
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[:2000] + done.stderr[-500:]
    assert re.search(r"\d+ passed", done.stdout)
    assert "skipped" not in done.stdout
    return done.stdout + done.stderr


def run_checked_tests(*names: str, **environment: str) -> None:
    """Run them under the layer that checks every call of Vulkan, and assert that it reports nothing."""
    errors = list_layer_errors(run_tests(*names, **{**environment, **LAYER}))
    assert not errors, "\n".join(errors[:10])


def list_layer_errors(told: str) -> list[str]:
    """Return the lines in which the layer reports an error."""
    return [line for line in told.splitlines() if re.match("(VUID|UNASSIGNED|SYNC-HAZARD)-", line.lstrip("."))]
