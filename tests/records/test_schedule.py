"""The file schedule.json: reading returns the written value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.schedule import NO_RECORDS, Schedule, read_schedule

FULL = Schedule(
    FrozenMap({"a" * 16: '{"decisions":[],"instructions":[[1,0.1,null]]}', "b" * 16: "[]"}),
    "NHWC",
    FrozenMap({"1x8x8x16 to 16, padding 1 1 1 1": "winograd4"}),
    FrozenMap({"a" * 16: ("conv2d", "relu"), "b" * 16: ()}),
)


@pytest.mark.parametrize("schedule", [NO_RECORDS, FULL], ids=["none", "full"])
def test_there_and_back(tmp_path: Path, schedule: Schedule) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(schedule.to_text())
    assert read_schedule(path) == schedule


def test_another_form(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text('{"format": 2}')
    with pytest.raises(TvmbuildError, match=r"schedule\.json has the format 2; this tvmbuild reads 1"):
        read_schedule(path)
