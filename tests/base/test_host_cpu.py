from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tvmbuild.base import host_cpu

X86 = """processor\t: 0
model name\t: Some(R)  CPU @ 2.00GHz
cpu MHz\t\t: {mhz}
flags\t\t: fpu avx avx2 fma
vmx flags\t: vnmi ept

processor\t: 1
model name\t: Some(R)  CPU @ 2.00GHz
cpu MHz\t\t: 800.1
flags\t\t: fpu avx avx2 fma
"""
ARM = """processor\t: 0
Features\t: fp asimd crc32
CPU part\t: 0xd08

Model\t\t: Raspberry Pi 4 Model B Rev 1.4
"""


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(host_cpu, "CPUINFO", path)
    return path


def test_x86(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    cpuinfo.write_text(X86.format(mhz="2000.0"))
    assert host_cpu.cpu_flags() == {"fpu", "avx", "avx2", "fma"}
    assert host_cpu.cpu_name() == "Some(R) CPU @ 2.00GHz"
    identity = host_cpu.cpu_identity()
    cpuinfo.write_text(X86.format(mhz="3500.0"))
    assert host_cpu.cpu_identity() == identity
    cpuinfo.write_text(X86.format(mhz="2000.0").replace("fma", "xop"))
    assert host_cpu.cpu_identity() != identity


def test_arm(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    cpuinfo.write_text(ARM)
    assert host_cpu.cpu_flags() == {"fp", "asimd", "crc32"}
    assert host_cpu.cpu_name() == "Raspberry Pi 4 Model B Rev 1.4"
    identity = host_cpu.cpu_identity()
    cpuinfo.write_text(ARM.replace("0xd08", "0xd0b"))
    assert host_cpu.cpu_identity() != identity


@pytest.mark.parametrize(("machine", "text"), [("aarch64", X86), ("x86_64", ARM)])
def test_the_file_of_another_machine_behind_an_emulator_tells_nothing(
    cpuinfo: Path, monkeypatch: pytest.MonkeyPatch, machine: str, text: str
) -> None:
    cpuinfo.write_text(text)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host_cpu.cpu_flags() == frozenset()


def test_a_system_that_does_not_tell(cpuinfo: Path) -> None:
    assert not cpuinfo.exists()
    assert host_cpu.cpu_flags() == frozenset()
    assert host_cpu.cpu_name() == (platform.processor() or platform.machine())
    assert host_cpu.cpu_identity() == platform.processor()


def test_this_machine_has_a_name() -> None:
    assert host_cpu.cpu_name()
