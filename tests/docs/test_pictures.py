"""README's picture is what its command draws from the committed measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ratio_chart import PICTURE, RESULTS, draw, read_groups

GROUPS = json.loads(RESULTS.read_text(encoding="utf-8"))["groups"]


def test_the_picture_shows_the_measurements() -> None:
    assert PICTURE.read_text(encoding="utf-8") == draw(read_groups(RESULTS)), "python benchmarks/ratio_chart.py"


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['title']}, {group['threads']}")
def test_every_group_says_how_it_was_measured(group: dict[str, object], project_root: Path) -> None:
    command = str(group["command"]).split()
    assert (project_root / command[1]).is_file()
    assert all(group[key] for key in ("machine", "date", "cpu", "schedules"))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['title']}, {group['threads']}")
def test_ratios_are_those_of_the_times(group: dict[str, list[dict[str, float]]]) -> None:
    for network in group["networks"]:
        assert network["ratio"] == pytest.approx(network["ms"] / network["onnxruntime_ms"], rel=0.08), network
