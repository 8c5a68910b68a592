"""The needs of tests that pip does not install: a marker for each, and the reason why this machine lacks it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from browser import find_browser
from nights import OTHER_NIGHT

from tvmbuild.planning.detection import detect_capabilities

SHARED = Path(__file__).resolve().parents[3] / "shared"
"""Data that the project must not copy."""


def _explain_toolchain() -> str | None:
    both = shutil.which("gcc") and any(map(shutil.which, ("c++", "g++", "clang++")))
    return None if both else "no C++ compiler"


def _explain_emulator() -> str | None:
    made = "aarch64" in detect_capabilities().emulators
    return None if made else "none is made; tvmbuild device emulator make aarch64"


def _explain_cuda() -> str | None:
    return None if "cuda" in detect_capabilities().devices else "no card answers"


_ASK_VULKAN = """
from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.vulkan.plugin import load_plugin
load_plugin()
print(call("runtime.GetDeviceAttr", 7, 0, 0))
"""


def _explain_vulkan() -> str | None:
    # In its own process, because loaded libraries would be there for tests of machines without Vulkan.
    asked = subprocess.run([sys.executable, "-c", _ASK_VULKAN], check=False, capture_output=True, text=True)
    if asked.returncode != 0:
        return asked.stderr.strip().rpartition("\n")[2]
    return None if asked.stdout.split()[-1] == "1" else "no device answers"


def _explain_vulkan_headers() -> str | None:
    return None if Path("/usr/include/vulkan/vulkan.h").is_file() else "no Khronos' headers in /usr/include"


def _explain_opencv_headers() -> str | None:
    return None if Path("/usr/include/opencv4/opencv2/core.hpp").is_file() else "no OpenCV in /usr/include"


def _explain_dds() -> str | None:
    if shutil.which("idlc") is None or not Path("/usr/include/dds/dds.h").is_file():
        return "no Cyclone DDS in /usr/include"
    return None if find_spec("cyclonedds") else "no cyclonedds of Python"


def _explain_ssh() -> str | None:
    there = shutil.which("ssh") and (shutil.which("sshd") or Path("/usr/sbin/sshd").exists())
    return None if there else "no OpenSSH server"


def _explain_root() -> str | None:
    return None if os.geteuid() == 0 else "not root"


def _explain_mount() -> str | None:
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("mount") is None:
        return "no mount"
    with TemporaryDirectory() as folder:  # root of a container may not
        tried = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=False, capture_output=True)
        if tried.returncode == 0:
            subprocess.run(["umount", folder], check=True)
    return None if tried.returncode == 0 else "not allowed here"


def _explain_torch() -> str | None:
    missing = [name for name in ("torch", "onnxscript") if find_spec(name) is None]
    return f"no {' and no '.join(missing)}" if missing else None


def _explain_hub() -> str | None:
    return None if find_spec("huggingface_hub") else "no huggingface-hub"


def _explain_tflite() -> str | None:
    missing = [name for name in ("tflite", "ai_edge_litert") if find_spec(name) is None]
    return f"no {' and no '.join(missing)}" if missing else None


def _explain_browser() -> str | None:
    return None if find_browser() else "no chromium"


def _explain_shared() -> str | None:
    files = ("images/dog.jpg", "models/yolov3_tiny_decoded.onnx")
    return None if all((SHARED / name).is_file() for name in files) else "not beside the project"


NEEDS: dict[str, tuple[str, Callable[[], str | None]]] = {
    "toolchain": ("the system's gcc and a C++ compiler", _explain_toolchain),
    "emulator": ("the emulated arm64 board", _explain_emulator),
    "cuda": ("an NVIDIA card", _explain_cuda),
    "vulkan": ("a Vulkan device; Debian's mesa-vulkan-drivers have one in software", _explain_vulkan),
    "vulkan_headers": ("Khronos' headers, Debian's libvulkan-dev", _explain_vulkan_headers),
    "dds": ("Cyclone DDS, Debian's cyclonedds-dev and cyclonedds-tools, and PyPI's cyclonedds", _explain_dds),
    "opencv_headers": ("OpenCV's C++ core, Debian's libopencv-core-dev", _explain_opencv_headers),
    "ssh": ("OpenSSH's client and server", _explain_ssh),
    "root": ("root's rights", _explain_root),
    "mount": ("the right to mount", _explain_mount),
    "torch": ("PyTorch, the extra torch", _explain_torch),
    "hub": ("huggingface-hub, the extra hub", _explain_hub),
    "tflite": ("the extra tflite", _explain_tflite),
    "browser": ("Debian's chromium", _explain_browser),
    "shared": ("networks and pictures that may not be copied", _explain_shared),
}
"""Marker → its meaning, and a function that returns the reason for its absence."""
OTHERS = "other reasons (-rs lists them)"


@functools.cache
def explain_absent(marker: str) -> str | None:
    """Return why tests with this marker cannot run here; None if they can."""
    return NEEDS[marker][1]()


def summarise_absent(reasons: Iterable[str]) -> str:
    """Return one line for the end of a run, with the reasons of all skipped tests."""
    counts: Counter[str] = Counter()
    for reason in reasons:
        name, _, why = reason.partition(": ")
        counts[f"{name} ({why})" if name in {*NEEDS, OTHER_NIGHT} else OTHERS] += 1
    return ", ".join(f"{shown} {counts[shown]}" for shown in sorted(counts, key=lambda shown: (shown == OTHERS, shown)))
