"""The energy and the heat of a machine, read from files as Linux shows them."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.devices.energy import EnergyMeter
from tvmbuild.devices.heat import HeatWatch


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def make_counter(folder: Path, name: str, microjoules: int, kind: str = "package-0") -> Path:
    write(folder / name / "name", kind)
    write(folder / name / "energy_uj", microjoules)
    write(folder / name / "max_energy_range_uj", 10_000_000)
    return folder / name / "energy_uj"


def test_the_energy_of_all_cpus_is_added(tmp_path: Path) -> None:
    first = make_counter(tmp_path, "intel-rapl:0", 1_000_000)
    second = make_counter(tmp_path, "intel-rapl:1", 9_000_000, "package-1")
    make_counter(tmp_path, "intel-rapl:0:0", 77, "core")  # a part of the first
    make_counter(tmp_path, "intel-rapl:2", 77, "psys")
    meter = EnergyMeter(card=False, folder=tmp_path)
    write(first, 3_500_000)
    write(second, 1_000_000)  # it began anew at 10 J
    assert meter.read() == 2.5 + 2.0


def test_a_machine_that_does_not_tell_its_energy(tmp_path: Path) -> None:
    assert EnergyMeter(card=False, folder=tmp_path / "none").read() is None
    assert EnergyMeter(card=False, folder=tmp_path).read() is None
    counter = make_counter(tmp_path, "intel-rapl:0", 1)
    meter = EnergyMeter(card=False, folder=tmp_path)
    counter.unlink()
    assert meter.read() is None


def test_slowed_cores_are_counted(tmp_path: Path) -> None:
    counts = [tmp_path / f"cpu{core}" / "thermal_throttle" / "core_throttle_count" for core in range(2)]
    for path in counts:
        write(path, 5)
    watch = HeatWatch(tmp_path)
    write(counts[1], 8)
    assert watch.count_throttled() == 3
    assert watch.read_clock() is None
    for core, rate in enumerate((1_500_000, 2_400_000)):
        write(tmp_path / f"cpu{core}" / "cpufreq" / "scaling_cur_freq", rate)
        write(tmp_path / f"cpu{core}" / "cpufreq" / "cpuinfo_max_freq", 3_000_000)
    assert watch.read_clock() == 0.8
    assert HeatWatch(tmp_path / "none").count_throttled() is None
