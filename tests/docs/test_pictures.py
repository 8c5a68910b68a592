"""The committed pictures of ratios are the ones that their command draws from the committed measurements."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ratio_chart import PICTURES, draw_all
from ratio_results import RESULTS, count_verdicts, read_groups, write_tables

from tvmbuild.benchmarking.estimates import geometric_mean

GROUPS = json.loads(RESULTS.read_text(encoding="utf-8"))["groups"]


DRAWN = draw_all(RESULTS)


@pytest.mark.parametrize("name", DRAWN)
def test_the_picture_shows_the_measurements(name: str) -> None:
    assert (PICTURES / name).read_text(encoding="utf-8") == DRAWN[name], "python benchmarks/ratio_chart.py"


def test_each_picture_says_which_side_is_faster_and_all_means() -> None:
    means = [f"{group.mean:.2f}<" for group in read_groups(RESULTS)]
    for drawn in DRAWN.values():
        assert [part for part in ("← package is faster", "slower →", *means) if part not in drawn] == []


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['title']}, {group['threads']}")
def test_every_group_says_how_it_was_measured(group: dict[str, object], project_root: Path) -> None:
    command = str(group["command"]).split()
    assert (project_root / command[1]).is_file()
    assert all(group[key] for key in ("machine", "date", "cpu", "schedules"))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['title']}, {group['threads']}")
def test_ratios_are_those_of_the_times(group: dict[str, list[dict[str, float]]]) -> None:
    for network in group["networks"]:
        assert network["ratio"] == pytest.approx(network["ms"] / network["onnxruntime_ms"], rel=0.08), network


def test_the_headline_is_that_of_the_measurements(project_root: Path) -> None:
    counted = count_verdicts()
    pages = {
        name: " ".join((project_root / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "README.zh.md", "docs/explanation/performance.md")
    }
    rest = counted.judged - counted.faster - counted.slower
    assert (
        f"{counted.faster} of {counted.packages} packages are measurably faster than ONNX Runtime, "
        f"{counted.slower} slower, {counted.packages - counted.faster - counted.slower} neither; "
        f"the median takes {100 * (1 - counted.median):.0f} % less time"
    ) in pages["README.md"]
    told = (counted.packages, counted.faster, counted.slower, f"{counted.median:.2f}")
    line = re.search(r"(\d+) 个 package 中有 (\d+) 个\D+(\d+) 个\D+(\d\.\d+)", pages["README.zh.md"])
    assert line is not None
    assert line.groups() == tuple(map(str, told))
    assert (
        f"{counted.judged} have a 95 % interval: {counted.faster} are measurably faster than ONNX Runtime, "
        f"{counted.slower} are slower, and {rest} show no difference. "
        f"The median of all {counted.packages} ratios is {counted.median:.2f}."
    ) in pages["docs/explanation/performance.md"]


def test_the_page_has_a_row_for_each_group(project_root: Path) -> None:
    page = (project_root / "docs/explanation/performance.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| (?:Emerald|Zen)", line)]
    means: dict[str, list[str]] = {group["title"]: [] for group in GROUPS}
    for group in GROUPS:
        means[group["title"]].append(f"{geometric_mean([each['ratio'] for each in group['networks']]):.2f}")
    assert [re.findall(r"\d\.\d\d", row.split("|")[-2]) for row in rows[: len(means)]] == list(means.values())


def test_the_sites_tables_have_every_network() -> None:
    tables = write_tables()
    assert tables.count("\n### ") + 1 == len(GROUPS)
    assert tables.count("| geometric mean |") == len(GROUPS)
    rows = [line for line in tables.splitlines() if line.startswith("| ") and line[2:].split(" |")[0] != "network"]
    assert len(rows) == sum(len(group["networks"]) + 1 for group in GROUPS)
