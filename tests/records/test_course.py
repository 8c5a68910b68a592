from __future__ import annotations

from pathlib import Path

import pytest

from tvmbuild.records.course import Course, follow, read_course, write_course
from tvmbuild.records.journal import Entry
from tvmbuild.records.task_file import Record


def entry(measured: int, seconds: float | None, device_class: str = "zen4", target: str = "t") -> Entry:
    record = None if seconds is None else Record("{}", seconds, device_class, 2, "0.27")
    return Entry(device_class, measured, record, target)


def test_the_first_time_and_each_improvement_are_kept() -> None:
    entries = [entry(1, None), entry(2, 3e-6), entry(3, 4e-6), entry(4, 1e-6), entry(5, None)]
    assert follow(entries) == Course("zen4", "t", ((2, 3e-6), (4, 1e-6)), 5)
    assert follow([]) is None


def test_a_later_search_goes_on() -> None:
    before = Course("zen4", "t", ((2, 3e-6),), 5)
    assert follow([entry(5, 1e-9), entry(6, 4e-6), entry(7, 2e-6)], before) == Course(
        "zen4", "t", ((2, 3e-6), (7, 2e-6)), 7
    )
    assert follow([], before) == before


@pytest.mark.parametrize("other", [entry(7, 2e-6, "zen5"), entry(7, 2e-6, target="u")])
def test_another_device_class_or_target_begins_anew(other: Entry) -> None:
    course = follow([entry(6, 1e-6), other], Course("zen4", "t", ((2, 3e-6),), 5))
    assert course == Course(other.device_class, other.target, ((7, 2e-6),), 7)


def test_it_is_read_as_it_was_written_and_damage_counts_as_absent(tmp_path: Path) -> None:
    path, course = tmp_path / "a" / "00.json", Course("zen4", "t", ((2, 3e-6), (4, 1e-6)), 5)
    assert read_course(path) is None
    write_course(path, course)
    assert read_course(path) == course
    for damage in ("{", "[]", '{"format": 1, "points": [[1]]}', path.read_text().replace("1e-06", "0")):
        path.write_text(damage)
        assert read_course(path) is None
