"""The peaks of a GPU, measured if one answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.devices.local.gpu_peak import measure_gpu_peak
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = [pytest.mark.compiler]
HOST: Attributes = FrozenMap({"mcpu": "x86-64", "mtriple": "x86_64-linux-gnu", "num-cores": 1})
SOFT = PackageTarget("soft", "vulkan", FrozenMap(sorted(FAMILIES["lavapipe"].items())), HOST)
CARD = PackageTarget("h200", "cuda", FrozenMap({"arch": "sm_90", "max_threads_per_block": 1024}), HOST)


@pytest.mark.vulkan
def test_a_vulkan_device_is_measured() -> None:
    peak = measure_gpu_peak(SOFT)
    assert peak.gflops > 0
    assert peak.gb_s > 0
    assert (peak.threads, peak.memory) == (0, "128 MiB copied")
    assert peak.compute.startswith("fp32 multiply-adds in registers, ")


def test_a_device_that_is_not_here_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(TvmbuildError, match=r"measuring this machine's peak failed: .*cuda"):
        measure_gpu_peak(CARD)


def _build_all() -> list[Any]:
    from tvmbuild.compiler.machine.target import tvm_target
    from tvmbuild.devices.local.gpu_peak_kernels import LANES, build_copy, build_multiply_adds

    made = tvm_target(SOFT.kind, SOFT.attributes, SOFT.host)
    return [build_multiply_adds(made), *(build_copy(made, lanes) for lanes in LANES)]


@pytest.mark.vulkan
def test_the_kernels_do_all_that_is_counted() -> None:
    from tvmbuild.devices.local.gpu_timer import use_gpu

    for kernel in _build_all():
        source, result = kernel.make_arguments(use_gpu("vulkan"))
        result.copyfrom(np.zeros(result.shape, np.float32))
        kernel.function(source, result)
        copied = result.shape == source.shape
        assert np.all(result.numpy() == (0.5 if copied else 1.0)), "1 is the limit of x = x / 2 + 0.5"
