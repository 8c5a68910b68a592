"""The energy and the heat of a machine, read from files as Linux shows them."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.devices.energy import EnergyMeter
from tvmbuild.devices.heat import HeatWatch
from tvmbuild.devices.power_sensors import Reading, add_up, list_sensors, read_watts


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
    meter = EnergyMeter(card=False, folder=tmp_path, sensors=tmp_path)
    write(first, 3_500_000)
    write(second, 1_000_000)  # it restarted at 10 J
    assert meter.read() == 2.5 + 2.0


def test_a_machine_that_does_not_tell_its_energy(tmp_path: Path) -> None:
    assert EnergyMeter(card=False, folder=tmp_path / "none", sensors=tmp_path).read() is None
    assert EnergyMeter(card=False, folder=tmp_path, sensors=tmp_path).read() is None
    counter = make_counter(tmp_path, "intel-rapl:0", 1)
    meter = EnergyMeter(card=False, folder=tmp_path, sensors=tmp_path)
    counter.unlink()
    assert meter.read() is None


def make_channel(chip: Path, channel: int, label: str, millivolts: int, milliamperes: int) -> None:
    write(chip / "name", "ina3221")
    write(chip / f"in{channel}_label", label)
    write(chip / f"in{channel}_input", millivolts)
    write(chip / f"curr{channel}_input", milliamperes)


def test_the_sensor_of_a_boards_input_measures_its_parts(tmp_path: Path) -> None:
    """The folder is like the one of a Jetson Orin, whose first channel is the input."""
    for channel, (label, current) in enumerate((("VDD_IN", 1500), ("VDD_CPU_GPU_CV", 600), ("VDD_SOC", 300)), 1):
        make_channel(tmp_path / "hwmon1", channel, label, 5000, current)
    make_channel(tmp_path / "hwmon1", 4, "Sum of shunt voltages", 3, 2400)
    write(tmp_path / "hwmon0" / "name", "thermal-fan")
    write(tmp_path / "hwmon0" / "power1_input", 1)
    (sensor,) = list_sensors(tmp_path)
    assert (sensor.label, read_watts(sensor)) == ("VDD_IN", 7.5)


def test_sensors_without_one_of_the_input_are_added(tmp_path: Path) -> None:
    """A chip that multiplies itself (INA226) has its power in millionths of a watt."""
    make_channel(tmp_path / "hwmon0", 1, "GPU", 19000, 100)
    make_channel(tmp_path / "hwmon0", 2, "NC", 19000, 700)
    write(tmp_path / "hwmon1" / "name", "ina226")
    write(tmp_path / "hwmon1" / "power1_input", 2_500_000)
    write(tmp_path / "hwmon1" / "in1_input", 1)
    write(tmp_path / "hwmon1" / "curr1_input", 1)
    assert [read_watts(each) for each in list_sensors(tmp_path)] == [1.9, 2.5]


def test_power_is_added_up_over_time() -> None:
    assert add_up([Reading(10.0, 4.0), Reading(11.0, 6.0), Reading(13.0, 6.0)]) == 5.0 + 12.0


def test_a_board_with_sensors_tells_its_energy_with_and_without_its_card(tmp_path: Path) -> None:
    make_channel(tmp_path / "hwmon0", 1, "VDD_IN", 5000, 1000)
    for card in (False, True):
        meter = EnergyMeter(card=card, folder=tmp_path, sensors=tmp_path)
        assert (meter.read() or 0) > 0
    meter = EnergyMeter(card=False, folder=tmp_path, sensors=tmp_path)
    (tmp_path / "hwmon0" / "curr1_input").unlink()
    assert meter.read() is None
    make_counter(tmp_path, "intel-rapl:0", 1_000_000)
    meter = EnergyMeter(card=False, folder=tmp_path, sensors=tmp_path)
    assert meter.read() == 0, "the CPU's counters come first"


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
