from __future__ import annotations

from dataclasses import replace

import pytest

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, NoDevice, QemuDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import BenchmarkOptions, TargetSpec, TuneOptions
from tvmbuild.base.steps import TuneStep
from tvmbuild.planning.availability import explain_unavailable
from tvmbuild.planning.device_use import explain_device, may_measure

HERE = Capabilities(
    codegens=("llvm", "cuda"),
    runtimes=("llvm", "cuda"),
    devices=("llvm",),
    nvcc="12.6",
    machine="x86_64",
    host_cpu="zen4",
    cpu_features=("avx", "avx2", "fma"),
    runnable_cpus=("generic", "x86-64-v3"),
    versions=FrozenMap({"ziglang": "6"}),
    linkers=FrozenMap({"gcc": "gcc 13"}),
)
VULKAN_HERE = replace(
    HERE,
    codegens=("llvm", "vulkan"),
    runtimes=("llvm", "vulkan"),
    devices=("llvm", "vulkan"),
    vulkan_devices=("Iris",),
)
V3 = TargetSpec("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"}))
MANY = TargetSpec("many", "llvm", FrozenMap({**V3.attributes, "num-cores": 8}))
MORE = TargetSpec("more", "llvm", V3.attributes, benchmark=BenchmarkOptions(threads=8))
PI4 = TargetSpec("pi4", "llvm", FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}))
RISCV = TargetSpec("riscv64", "llvm", FrozenMap({"mtriple": "riscv64-linux-gnu"}))
GPU = TargetSpec("gpu", "cuda", FrozenMap({"arch": "sm_90"}), host=V3.attributes)
VULKAN = TargetSpec("nuc", "vulkan", FrozenMap(), host=V3.attributes)
LOCAL = LocalDevice()
QEMU = QemuDevice("aarch64")
SSH = SshDevice("pi@pi")


@pytest.mark.parametrize(
    ("stage", "target", "here", "reason"),
    [
        ("tune", V3, HERE, None),
        ("compile", V3, HERE, None),
        ("benchmark", V3, HERE, None),
        ("compile", GPU, HERE, None),
        ("compile", GPU, replace(HERE, nvcc=None, nvrtc="12.9"), None),
        ("compile", GPU, replace(HERE, nvcc=None), "neither nvcc nor NVRTC 12 is here"),
        ("tune", GPU, replace(HERE, nvcc=None), None),
        ("benchmark", MANY, HERE, None),
        (
            "benchmark",
            MANY,
            replace(HERE, cores=4),
            "the target asks for 8 threads and this process may use 4 cores; say",
        ),
        ("compile", MANY, replace(HERE, cores=4), None),
        ("benchmark", MORE, replace(HERE, cores=4), "`benchmark:` asks for 8 threads and this process may use 4 cores"),
        ("benchmark", MORE, replace(HERE, cores=1), "`benchmark:` asks for 8 threads and this process may use 1 core;"),
        ("tune", MORE, replace(HERE, cores=4), None),
        ("benchmark", GPU, HERE, "no cuda device answers on this machine"),
        ("benchmark", GPU, replace(HERE, runtimes=("llvm",)), "the installed TVM has no cuda runtime"),
        (
            "compile",
            VULKAN,
            HERE,
            "the runtime that Vulkan code is packed with is not compiled, and no compiler is here; `pip install z",
        ),
        (
            "benchmark",
            VULKAN,
            HERE,
            "the Vulkan runtime is not compiled, and no compiler is here; `pip install ziglang`",
        ),
        ("benchmark", VULKAN, replace(VULKAN_HERE, vulkan_missing="loader"), "Vulkan's loader libvulkan.so.1 is not"),
        ("benchmark", VULKAN, replace(VULKAN_HERE, vulkan_missing="driver"), "Vulkan's loader finds no driver; `apt"),
        ("benchmark", VULKAN, replace(VULKAN_HERE, devices=("llvm",)), "the Vulkan runtime takes no device of Iris"),
        (
            "benchmark",
            VULKAN,
            replace(VULKAN_HERE, devices=(), vulkan_refusal="no"),
            "the Vulkan runtime takes no device: no",
        ),
        *((stage, VULKAN, replace(HERE, vulkan_refusal="left out"), "left out") for stage in ("compile", "benchmark")),
        *((stage, VULKAN, VULKAN_HERE, None) for stage in ("tune", "compile", "benchmark")),
        ("compile", VULKAN, replace(VULKAN_HERE, vulkan_missing="driver", devices=("llvm",)), None),
        ("compile", V3, replace(HERE, codegens=()), "the installed TVM generates no llvm code"),
        ("compile", V3, replace(HERE, versions=FrozenMap()), "the linker is missing; `pip install ziglang`"),
        ("compile", replace(V3, link="gcc"), replace(HERE, versions=FrozenMap()), None),
        ("compile", replace(V3, link="icc"), HERE, "the compiler `icc` is not on PATH"),
        ("benchmark", replace(V3, device=NoDevice()), HERE, "the target has no device"),
        ("benchmark", replace(PI4, device=RpcDevice("h:1", "pi4")), HERE, None),
        ("benchmark", replace(PI4, device=QEMU), HERE, "the emulated board aarch64 is not made, or not for this TVM; "),
        ("benchmark", replace(PI4, device=QEMU), replace(HERE, emulators=("aarch64",)), None),
        ("benchmark", replace(V3, device=QEMU), HERE, "its code is for x86_64 and the emulated board is aarch64"),
        ("benchmark", replace(GPU, device=QEMU), HERE, "an emulated board runs the code of CPUs, not of cuda"),
        ("benchmark", replace(PI4, device=SSH), HERE, None),
        ("benchmark", replace(RISCV, device=SSH), HERE, "there is no TVM runtime for riscv64, only for x86_64 and aa"),
        ("benchmark", replace(GPU, device=SSH), HERE, None),
        ("benchmark", replace(VULKAN, device=SSH), HERE, None),
        ("tune", replace(V3, unresolved="run `tvmbuild target lock v3`"), HERE, "run `tvmbuild target lock v3`"),
    ],
)
def test_reasons(stage: str, target: TargetSpec, here: Capabilities, reason: str | None) -> None:
    found = explain_unavailable(stage, target, here)
    assert (found is None) if reason is None else (found is not None and found.startswith(reason)), found


@pytest.mark.parametrize(
    ("kind", "devices", "device", "may"),
    [
        ("cuda", ("llvm", "cuda"), LOCAL, True),
        ("cuda", ("llvm",), LOCAL, False),
        ("cuda", ("llvm", "cuda"), NoDevice(), False),
        ("vulkan", ("llvm", "vulkan"), LOCAL, True),
        ("vulkan", ("llvm",), LOCAL, False),
    ],
)
def test_candidates_of_a_gpu_are_timed_where_it_answers(
    kind: str,
    devices: tuple[str, ...],
    device: DeviceSpec,
    may: bool,
) -> None:
    options = TuneStep("gpu", kind, FrozenMap({"arch": "sm_90"}), V3.attributes, None, device, TuneOptions())
    assert may_measure(options, replace(HERE, devices=devices, runtimes=devices)) is may


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({}, None),
        ({"mcpu": "zen4"}, None),
        ({"mcpu": "x86-64-v4"}, "this CPU (zen4) lacks instructions of x86-64-v4"),
        ({"mattr": ("+avx2", "-avx512f")}, None),
        ({"mattr": ("+avx2", "+avx512f", "+avx512bw")}, "this CPU (zen4) lacks avx512f, avx512bw"),
        ({"mattr": ("+prefer-256-bit",)}, None),
        ({"mtriple": "aarch64-linux-gnu"}, "its code is for aarch64 and this machine is x86_64"),
        ({"mtriple": "amd64-unknown-linux-gnu"}, None),
    ],
)
def test_cpu(attributes: dict[str, AttributeValue], reason: str | None) -> None:
    found = explain_device("llvm", FrozenMap(attributes), LOCAL, HERE)
    assert (found is None) if reason is None else (found is not None and found.startswith(reason)), found
