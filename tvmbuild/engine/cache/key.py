"""What a step's outputs are cached under: all that they depend on, and nothing of where the project lies."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from tvmbuild.engine.fingerprint import Digest, fingerprint
from tvmbuild.files import canonical_json
from tvmbuild.host_cpu import cpu_identity, cpu_name
from tvmbuild.specs import LocalDevice
from tvmbuild.steps import AnyStep, BenchmarkStep, has_options

FORMAT = 1
NVIDIA = Path("/proc/driver/nvidia")
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def make_key(step: AnyStep, inputs: Mapping[str, Digest]) -> str | None:
    """Return 64 hex digits; None for a step whose outputs hold only for a device that cannot be told from others.

    ``inputs`` are the digests of all files that the step reads, external data included, by role.
    """
    device = identify_device(step.options) if has_options(step, BenchmarkStep) else {}
    if device is None:
        return None
    parts = {
        "format": FORMAT,
        "stage": step.stage,
        "fingerprint": fingerprint(step),
        "inputs": {role: sha256 for role, (_, _, sha256) in inputs.items()},
        "device": device,
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def identify_device(options: BenchmarkStep) -> dict[str, str] | None:
    """Return what latency on the step's device depends on; None for a device that is not this machine's."""
    if not isinstance(options.device, LocalDevice):
        return None
    here = _identify_cpu()
    if options.kind == "llvm":
        return here
    gpu = _identify_nvidia() if options.kind == "cuda" else None
    return None if gpu is None else here | gpu


def _identify_cpu() -> dict[str, str]:
    identity = {
        "cpu": cpu_name(),
        "cpu features": hashlib.sha256(cpu_identity().encode()).hexdigest(),
        "cores": str(len(os.sched_getaffinity(0))),
    }
    with contextlib.suppress(OSError):  # no container: no quota
        identity["cpu quota"] = CPU_QUOTA.read_text().strip()
    return identity


def _identify_nvidia() -> dict[str, str] | None:
    """Return the GPUs' models and the driver's version as the kernel module tells them; None where it does not."""
    try:
        driver = (NVIDIA / "version").read_text().splitlines()[0]
        models = [
            next(line for line in path.read_text().splitlines() if line.startswith("Model:"))
            for path in sorted(NVIDIA.glob("gpus/*/information"))
        ]
    except (OSError, IndexError, StopIteration):
        return None
    if not models:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    return {"driver": driver, "gpus": canonical_json(models), "visible gpus": visible}
