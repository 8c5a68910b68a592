from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest
import tvm_ffi

from tvmbuild.base import host_cpu
from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.cpu_features import X86_FEATURES, X86_LEVELS
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_flags
from tvmbuild.errors import CannotRunError, TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.host import check_cpu, load_backend, required_flags, runs_on_card
from tvmbuild.package.runtime.machine import describe_devices


@pytest.mark.parametrize(
    ("attributes", "features"),
    [
        ({}, set()),
        ({"mcpu": "znver4"}, set()),
        ({"mcpu": "x86-64-v3"}, X86_LEVELS["x86-64-v3"]),
        ({"mattr": ("+avx2", "+sse4.1", "+lzcnt", "-avx2")}, {"sse4_1", "abm"}),
        ({"mattr": "+fma,+something-new"}, {"fma"}),
        ({"mattr": ("-avx512vl",), "mcpu": "x86-64-v4"}, X86_LEVELS["x86-64-v4"] - {"avx512vl"}),
        ({"mattr": ("+avx512vnni", "+amx-tile", "+avx512bf16", "-avx512bf16")}, {"avx512_vnni", "amx_tile"}),
    ],
)
def test_features_that_a_target_needs(attributes: dict[str, AttributeValue], features: set[str]) -> None:
    target = PackageTarget("old", "llvm", FrozenMap({"mtriple": "x86_64-linux-gnu", **attributes}))
    assert required_flags(target) == features
    assert required_flags(replace(target, flags=("avx",))) == {"avx"}


@pytest.mark.parametrize(
    ("machine", "present", "missing"),
    [
        ("aarch64", "fp asimd crc32", "asimddp, asimdhp"),
        ("aarch64", "fp asimd asimdhp asimddp", None),
        ("aarch64", "", None),
        ("x86_64", "fpu sse2 asimd", "asimddp, asimdhp"),
    ],
)
def test_stated_instruction_sets_are_compared_with_those_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, present: str, missing: str | None
) -> None:
    key = "flags" if machine == "x86_64" else "Features"
    (tmp_path / "cpuinfo").write_text(f"{key}\t: {present}\n" if present else "")
    monkeypatch.setattr(host_cpu, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    attributes = FrozenMap({"mcpu": "some-cpu", "mtriple": f"{machine}-linux-gnu"})
    target = PackageTarget("board", "llvm", attributes, flags=("asimd", "asimddp", "asimdhp"))
    if missing is None:
        check_cpu(target)
        return
    with pytest.raises(CannotRunError, match=f"the package is built for some-cpu; this CPU has no {missing}\n"):
        check_cpu(target)


def test_another_architecture_is_refused() -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    target = PackageTarget("board", "llvm", FrozenMap({"mtriple": f"{other}-linux-gnu"}))
    with pytest.raises(TvmbuildError, match=rf"the package is built for {other} \(board\); this machine is "):
        check_cpu(target)


def test_the_host_of_a_gpu_target_is_checked() -> None:
    target = PackageTarget("gpu", "cuda", FrozenMap({"arch": "sm_90"}), FrozenMap({"mtriple": "riscv64-linux-gnu"}))
    with pytest.raises(TvmbuildError, match="the package is built for riscv64"):
        check_cpu(target)


def test_a_missing_feature_is_named() -> None:
    wanted = {"amx-tile", "amx-fp16", "avx512fp16", "avxvnniint16", "xop"}
    missing = sorted(name for name in wanted if X86_FEATURES[name] not in cpu_flags())
    if platform.machine() != "x86_64" or not cpu_flags() or not missing:
        pytest.skip("this CPU has every feature that the test could miss, or does not tell")
    target = PackageTarget("new", "llvm", FrozenMap({"mattr": (f"+{missing[0]}",), "mcpu": "new-cpu"}))
    expected = f"the package is built for new-cpu; this CPU has no {X86_FEATURES[missing[0]]}"
    with pytest.raises(TvmbuildError, match=expected):
        check_cpu(target)


def test_this_machine_runs_its_own_code() -> None:
    check_cpu(PackageTarget("here", "llvm", FrozenMap({"mtriple": f"{platform.machine()}-linux-gnu"})))


@pytest.mark.parametrize(
    ("arch", "version", "runs"),
    [
        ("sm_90", "9.0", True),
        ("sm_86", "8.6", True),
        ("sm_86", "8.9", True),
        ("sm_86", "8.0", False),
        ("sm_86", "8.7", False),
        ("sm_87", "8.7", True),
        ("sm_87", "8.9", False),
        ("sm_72", "7.5", False),
        ("sm_110", "11.0", True),
        ("sm_90", "10.0", False),
        ("sm_100", "10.0", True),
        ("sm_75", "8.6", False),
        ("sm_90a", "9.0", True),
        ("sm_100a", "10.3", False),
        ("sm_100f", "10.3", True),
        ("", "9.0", True),
        ("sm_90", "", True),
    ],
)
def test_machine_code_runs_on_cards_of_its_major_number(arch: str, version: str, runs: bool) -> None:
    assert runs_on_card(arch, version) is runs


def test_a_backend_that_tvm_lacks() -> None:
    with pytest.raises(TvmbuildError, match="the package needs TVM's hexagon runtime, which is not there") as caught:
        load_backend("hexagon")
    assert caught.value.hint


@pytest.mark.parametrize(("workspace", "allocator"), [(4 << 20, 1), (33 << 20, 2), (None, 2)])
def test_memory_between_operators_comes_from_malloc_unless_malloc_would_not_keep_it(
    workspace: int | None, allocator: int
) -> None:
    assert describe_devices(tvm_ffi.device("cpu", 0), workspace) == [1, 0, allocator]
    assert describe_devices(tvm_ffi.device("vulkan", 1), workspace) == [7, 1, 2, 1, 0, 2]
