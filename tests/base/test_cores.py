"""The quota of control groups and the speeds of cores, from trees of files like the kernel's and from the kernel's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tvmbuild.base.cores import find_quota, pick_fastest, sort_by_speed
from tvmbuild.base.host_cpu import available_cores

V2 = "31 23 0:28 {root} {place} rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 {root} {place} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cgroups(memberships: str, mounts: str) -> dict[str, str]:
    return {"proc/self/cgroup": memberships, "proc/self/mountinfo": mounts}


@pytest.mark.parametrize(
    ("memberships", "mounts", "files", "quota"),
    [
        ("0::/a/b\n", V2.format(root="/", place="/sys/fs/cgroup"), {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", V2.format(root="/", place="/sys/fs/cgroup"), {"a/b/cpu.max": "max 100000\n"}, None),
        (
            "0::/a/b\n",  # an ancestor limits more
            V2.format(root="/", place="/sys/fs/cgroup"),
            {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n", "cpu.max": "max 100000\n"},
            2.0,
        ),
        (
            "4:cpu,cpuacct:/docker/17\n1:name=systemd:/docker/17\n",  # a container that sees its own group as the root
            V1.format(root="/docker/17", place="/sys/fs/cgroup"),
            {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        (
            "4:cpu,cpuacct:/x\n0::/\n",  # both versions are mounted
            V1.format(root="/", place="/sys/fs/cgroup") + V2.format(root="/", place="/sys/fs/unified"),
            {"x/cpu.cfs_quota_us": "300000\n", "x/cpu.cfs_period_us": "100000\n"},
            3.0,
        ),
        ("4:cpu:/x\n", V1.format(root="/", place="/sys/fs/cgroup"), {"x/cpu.cfs_quota_us": "-1\n"}, None),
        ("4:cpuset:/x\n", V1.format(root="/", place="/sys/fs/cgroup"), {"x/cpu.cfs_quota_us": "9\n"}, None),
        ("0::/a\n", "", {"a/cpu.max": "100000 100000\n"}, None),
        ("0::/\n", V2.format(root="/", place="/sys/fs/cgroup"), {"cpu.max": "100000 0\n"}, None),
    ],
)
def test_the_nearest_limit_of_the_groups_counts(
    tmp_path: Path, memberships: str, mounts: str, files: dict[str, str], quota: float | None
) -> None:
    inside = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert find_quota(write_tree(tmp_path, {**cgroups(memberships, mounts), **inside})) == quota


def test_a_system_without_groups_sets_no_limit(tmp_path: Path) -> None:
    assert find_quota(tmp_path) is None


def speeds(name: str, values: dict[int, int]) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{core}/{name}": f"{value}\n" for core, value in values.items()}


def test_the_fastest_cluster_is_the_first(tmp_path: Path) -> None:
    capacities = {0: 430, 1: 430, 2: 430, 3: 430, 4: 1024, 5: 1024, 6: 871, 7: 871}
    write_tree(tmp_path, speeds("cpu_capacity", capacities))
    assert sort_by_speed(range(8), tmp_path) == [[4, 5], [6, 7], [0, 1, 2, 3]]
    assert pick_fastest({0, 1, 5, 6, 7}, 2, tmp_path) == [5, 6]
    clocks = speeds("cpufreq/cpuinfo_max_freq", {0: 1800000, 1: 1800000, 2: 2400000, 3: 2400000})
    assert sort_by_speed(range(4), write_tree(tmp_path / "clocks", clocks)) == [[2, 3], [0, 1]]


def test_favoured_and_unknown_cores_are_one_cluster(tmp_path: Path) -> None:
    clocks = {0: 4800000, 1: 5000000, 2: 4800000}
    write_tree(tmp_path, speeds("cpufreq/cpuinfo_max_freq", clocks))
    assert sort_by_speed(range(3), tmp_path) == [[0, 1, 2]]
    assert sort_by_speed([5, 3], tmp_path / "none") == [[3, 5]]


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of version 1 that this test may limit."""
    folder = Path(f"/sys/fs/cgroup/cpu/tvmbuild-test-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    yield folder
    folder.rmdir()


@pytest.mark.skipif(available_cores() < 2, reason="one core")
def test_a_real_quota_is_followed(group: Path) -> None:
    (group / "cpu.cfs_quota_us").write_text("150000")
    code = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "from tvmbuild.base.cores import find_quota; from tvmbuild.base.host_cpu import available_cores\n"
        "print(find_quota(), available_cores())"
    )
    command = [sys.executable, "-c", code, str(group / "cgroup.procs")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.5", "1"]
