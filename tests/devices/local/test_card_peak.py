"""The peaks of an NVIDIA GPU: its kernels compile without one; the last tests measure."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import pytest

from tvmbuild.base.nvrtc import Nvrtc, find_nvrtc
from tvmbuild.cli.run.measure import choose_peak
from tvmbuild.compiler.codegen.nvrtc import compile_by_nvrtc
from tvmbuild.devices.device import Device
from tvmbuild.devices.local import card_peak
from tvmbuild.devices.local.card_peak import measure_card_peak, write_kernel
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.devices.local.gpu_peak import measure_gpu_peak
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget


@pytest.mark.parametrize(
    ("precision", "arch", "operations", "how"),
    [
        ("fp32", 75, 64 * 2 * 32, "fp32 FMA in registers"),
        ("fp16", 75, 64 * 2 * 32, "fp32 FMA in registers"),
        ("fp16", 86, 8 * 4096, "fp16 mma.sync in registers"),
        ("tf32", 86, 8 * 2048, "tf32 mma.sync in registers"),
        ("bf16", 90, 8 * 4096, "bf16 mma.sync in registers"),
    ],
)
def test_the_kernel_of_a_precision(precision: str, arch: int, operations: int, how: str) -> None:
    compiler = find_nvrtc(12)
    assert compiler is not None
    source, counted, told = write_kernel(precision, arch)
    assert (counted, told) == (operations, how)
    cubin = compile_by_nvrtc(source, f"sm_{arch}", compiler)
    assert cubin.startswith(b"\x7fELF")
    assert re.search(rb"\0\.text\.peak\0", cubin)


def test_a_card_has_its_own_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def package(kind: str, precision: str) -> PackageInfo:
        target = PackageTarget("it", kind, precision=precision)  # type: ignore[arg-type]
        return PackageInfo("net", target, (), (), "lifted", PackageCoverage(0, 0), "NCHW")

    chosen = choose_peak(LOCAL, package("cuda", "fp16"), 2)
    assert isinstance(chosen, partial)
    assert (chosen.func, chosen.args) == (measure_gpu_peak, (package("cuda", "fp16").target,))
    asked: list[str] = []
    monkeypatch.setattr("tvmbuild.devices.local.gpu_peak.measure_card_peak", asked.append)
    chosen()
    assert asked == ["fp16"]
    away = Device("a board", LOCAL.start, LOCAL.watch, here=False)
    assert choose_peak(away, package("cuda", "fp32"), 2) is None


def test_without_a_card_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'OSError: libcuda.so.1: no such file' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(TvmbuildError, match=r"peak failed: OSError: libcuda\.so\.1: no such file"):
        measure_card_peak("fp32")


def test_our_own_errors_keep_their_message_and_their_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    written = "Traceback\\ntvmbuild.errors.TvmbuildError: NVRTC 12 is not there\\n  hint: install it\\n"
    fake.write_text(f"#!/bin/sh\nprintf '{written}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(TvmbuildError) as raised:
        measure_card_peak("fp32")
    assert raised.value.message == "measuring this machine's peak failed: NVRTC 12 is not there"
    assert raised.value.hint == "install it"


@pytest.mark.parametrize(
    ("installed", "driver", "chosen"),
    [((11, 12, 13), 13, 12), ((13,), 13, 13), ((11, 13), 13, 13), ((13,), 12, None), ((11,), 13, None)],
)
def test_the_kernels_are_compiled_by_any_nvrtc_whose_code_the_driver_loads(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[int, ...], driver: int, chosen: int | None
) -> None:
    found = {major: Nvrtc((major, 0), Path(f"libnvrtc.so.{major}")) for major in installed}
    monkeypatch.setattr(card_peak, "find_nvrtc", found.get)
    if chosen is None:
        with pytest.raises(TvmbuildError, match="NVRTC 12 is not there"):
            card_peak.find_compiler(90, driver)
    else:
        assert card_peak.find_compiler(90, driver) == found[chosen]


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_card_is_measured(precision: str) -> None:
    peak = measure_card_peak(precision)
    assert peak.gflops > 0
    assert peak.gb_s > 0
    assert (peak.threads, peak.memory.endswith(" MiB copied")) == (0, True)
