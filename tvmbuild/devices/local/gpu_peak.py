"""Peak rates of this machine's GPU, with which a profile compares the rates of a package's kernels.

Two kernels are measured, which are built like those of packages: multiply-adds, and a copy. NVIDIA's cards have other
kernels (card_peak.py), because they multiply on tensor cores.
`python -m tvmbuild.devices.local.gpu_peak TARGET` takes a target as JSON and prints the rates. It is a separate
process, so that a crash of the driver ends nothing else. The best of several runs counts, because every disturbance
makes a run slower.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from tvmbuild.base.attributes import freeze_attributes
from tvmbuild.base.files import canonical_json
from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.local.card_peak import measure_card_peak
from tvmbuild.devices.local.peak import measure_in_process
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import Peak
from tvmbuild.targets.table import target_kind

if TYPE_CHECKING:
    from tvmbuild.devices.local.gpu_peak_kernels import GpuKernel  # imports TVM

LEAST_S = 0.02
"""The least time of a batch of calls with one wait, in seconds. The time of the launches is small beside it."""
RUNS = 5


def measure_gpu_peak(target: PackageTarget) -> Peak:
    """Measure the peak rates of this machine's first device of the target's kind, in another process.

    Nothing else should run on the device meanwhile. Raises TvmbuildError if the process fails.
    """
    if target.kind == "cuda":
        return measure_card_peak(target.precision)
    asked = {"kind": target.kind, "attributes": target.attributes, "host": target.host}
    return measure_in_process("tvmbuild.devices.local.gpu_peak", canonical_json(asked), os.environ)


def measure_here(asked: str) -> Peak:
    """Measure the peak rates in this process. ``asked`` is the target's kind, attributes and host as JSON."""
    import tvm  # noqa: PLC0415 - as below

    from tvmbuild.compiler.machine.target import tvm_target  # noqa: PLC0415 - who asks another process needs no TVM
    from tvmbuild.devices.local.gpu_peak_kernels import (  # noqa: PLC0415
        COPIED_BYTES,
        LANES,
        build_copy,
        build_multiply_adds,
    )
    from tvmbuild.devices.local.gpu_timer import use_gpu  # noqa: PLC0415

    given = json.loads(asked)
    kind = str(given["kind"])
    target = tvm_target(kind, freeze_attributes(given["attributes"]), freeze_attributes(given["host"]))
    use_gpu(kind)
    device = tvm.device(kind, 0)
    compute = _rate(build_multiply_adds(target), device)
    memory = max(_rate(build_copy(target, lanes), device) for lanes in LANES)
    name = target_kind(kind).find_device_class()
    return Peak(compute, memory, 0, f"fp32 multiply-adds in registers, {name}", f"{COPIED_BYTES >> 20} MiB copied")


def _rate(kernel: GpuKernel, device: Any) -> float:
    """Return the kernel's highest rate, in GFLOP/s or GB/s.

    The first call loads the code and does not count.
    """
    arguments = kernel.make_arguments(device)

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            kernel.function(*arguments)
        device.sync()
        return time.perf_counter() - start

    run(1)
    calls = 1
    while run(calls) < LEAST_S:
        calls *= 2
    return kernel.amount * calls / min(run(calls) for _ in range(RUNS)) / 1e9


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(measure_here(sys.argv[1]).to_json()) + "\n")
