"""The detection of this machine's capabilities.

Planning never imports TVM: a subprocess (`python -m tvmbuild.planning.probe`) does.
Its answer is cached per machine and installation.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from tvmbuild.base.capabilities import TOOLS, Capabilities, installed_version
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_identity, machine_of
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.processes import run_module
from tvmbuild.base.vulkan_driver import list_vulkan_files
from tvmbuild.devices.qemu.board import list_boards
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.native_build import RUNTIMES, place_prebuilt

FORMAT = 3
_RUNTIME_SETTINGS = (
    *("TVMBUILD_CUDA", "TVMBUILD_CUDA_WITHOUT"),
    *("TVMBUILD_VULKAN", "TVMBUILD_VULKAN_WITHOUT", "TVMBUILD_VULKAN_DEVICE"),
)
"""The environment variables that make a runtime refuse devices."""


def detect_capabilities(commands: Iterable[str] = ()) -> Capabilities:
    """Return this machine's capabilities. ``commands`` are the compilers that targets name as their linker.

    Raises TvmbuildError if TVM cannot be asked.
    """
    versions = FrozenMap((name, found) for name in TOOLS if (found := installed_version(name)) is not None)
    linkers = FrozenMap(
        (name, found) for name in sorted(set(commands)) if (found := _command_version(name)) is not None
    )
    cores, boards = len(os.sched_getaffinity(0)), list_boards()
    return replace(_probe_cached(), versions=versions, linkers=linkers, cores=cores, emulators=boards)


def forget_probe() -> None:
    """Remove the cached answer of the probe, so that the next detection runs the probe again."""
    _cache_file().unlink(missing_ok=True)


def _cache_file() -> Path:
    return cache_dir() / "probe" / f"{_probe_key()}.json"


def _probe_cached() -> Capabilities:
    path = _cache_file()
    try:
        return _decode(path.read_text())
    except (OSError, ValueError):
        pass  # absent or damaged: made again
    answer = _run_probe()
    try:
        write_json(path, asdict(answer))
    except OSError as error:
        print(f"tvmbuild: the probe's answer could not be cached: {error}", file=sys.stderr)
    return answer


def _run_probe() -> Capabilities:
    done = run_module("tvmbuild.planning.probe")
    if done.returncode != 0:
        *_, last = (line.strip() for line in ("no output", *done.stderr.strip().splitlines()))
        raise TvmbuildError(
            f"TVM could not be asked what it can do: {last}",
            f"Run `{sys.executable} -m tvmbuild.planning.probe` to see all of it; "
            "reinstall tvmbuild where TVM is damaged.",
        )
    if "error" in (answer := json.loads(done.stdout.splitlines()[-1])):
        raise TvmbuildError(f"TVM could not be asked what it can do: {answer['error']}", answer["hint"])
    return _decode(done.stdout.splitlines()[-1])


def _decode(text: str) -> Capabilities:
    """Return the capabilities in the probe's answer. Raises ValueError if the text holds none."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.keys() != {field.name for field in fields(Capabilities)}:
        raise ValueError("not a probe's answer")
    values: dict[str, Any] = {name: _freeze(value) for name, value in data.items()}
    return Capabilities(**values)


def _freeze(value: Any) -> Any:
    return FrozenMap(value) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


def _probe_key() -> str:
    """Return a digest of everything that could change the probe's answer."""
    parts = [
        str(FORMAT),
        sys.executable,
        platform.machine(),
        cpu_identity(),
        _distribution_identity("apache-tvm"),
        _distribution_identity("apache-tvm-ffi"),
        *map(_distribution_identity, ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11")),
        str(shutil.which("nvcc")),
        *(f"{name}={os.environ.get(name)}" for name in ("TVM_LIBRARY_PATH", "LD_LIBRARY_PATH", "CUDA_HOME")),
        *(str(Path(device).exists()) for device in ("/dev/nvidia0", "/dev/dri")),
        *list_vulkan_files(),
        *(f"{name}={os.environ.get(name)}" for name in _RUNTIME_SETTINGS),
        _distribution_identity("ziglang"),
        *(str(place_prebuilt(each, machine_of(platform.machine())).is_file()) for each in RUNTIMES),
        *sorted(str(entry) for entry in importlib.metadata.entry_points(group="tvm.backends")),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _distribution_identity(name: str) -> str:
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name}: absent"
    record = Path(str(found.locate_file(f"{name.replace('-', '_')}-{found.version}.dist-info"))) / "RECORD"
    stamp = record.stat().st_mtime_ns if record.exists() else 0
    return f"{name} {found.version} {record} {stamp}"


def _command_version(command: str) -> str | None:
    if shutil.which(command) is None:
        return None
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or ["unknown"])[0].strip()
