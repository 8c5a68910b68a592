"""The merge is a set union: properties over many files, and the three-way cases of git."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.merge import IMPORTED, merge_branches, merge_files
from tvmbuild.records.store import read_task_file, write_task_file
from tvmbuild.records.task_file import BEST, Record, TaskFile, keep_best

HERE, THERE = '{"attributes":{"num-cores":2},"host":{},"kind":"llvm"}', '{"attributes":{},"host":{},"kind":"llvm"}'
BESIDE = HERE.replace('"host":{}', '"host":{"num-cores":9}')
"""The same code with another CPU beside it, as GPU targets have."""
patient = settings(deadline=None)  # a busy machine must not fail it
N = TypeVar("N", int, float)
CLASSES = ("cortex-a72", "emeraldrapids", "znver4")
VERSIONS = st.sampled_from(["0.27.0", "0.27.0.post1", "0.9.0", "0.28.dev0"])


def trace(number: int) -> str:
    return canonical_json({"decisions": [], "instructions": [["Seed", [], [number], []]]})


# Few values, so that equal traces, equal times and full classes all occur.
records = st.builds(
    Record,
    trace=st.integers(0, 9).map(trace),
    seconds=st.sampled_from([1e-6, 2e-6, 2.5e-6, 3e-6, 1e-3]),
    measured_on=st.sampled_from(CLASSES),
    threads=st.integers(1, 2),
    tvm=VERSIONS,
)


def per_class(values: st.SearchStrategy[N]) -> st.SearchStrategy[FrozenMap[str, N]]:
    return st.dictionaries(st.sampled_from(CLASSES), values).map(lambda found: FrozenMap(sorted(found.items())))


files = st.builds(
    TaskFile,
    key=st.just("a" * 16),
    name=st.sampled_from(["conv2d", "conv2d_add", IMPORTED]),
    workload=st.sampled_from(["{}", '{"nodes":[]}']),
    target=st.sampled_from([HERE, BESIDE]),
    tvm=VERSIONS,
    records=st.lists(records, max_size=20).map(lambda found: keep_best(tuple(found))),
    searched=per_class(st.integers(0, 100)),
    exhausted=st.sets(st.sampled_from(CLASSES)).map(lambda found: tuple(sorted(found))),
    settled=per_class(st.integers(0, 100)),
    rules=per_class(st.integers(1, 9)),
    spent=per_class(st.floats(0, 1e6).map(lambda value: round(value, 2))),
)


@patient
@given(files, files)
def test_merging_is_commutative(one: TaskFile, other: TaskFile) -> None:
    assert merge_files(one, other) == merge_files(other, one)


@patient
@given(files, files, files)
def test_merging_is_associative(one: TaskFile, two: TaskFile, three: TaskFile) -> None:
    assert merge_files(merge_files(one, two), three) == merge_files(one, merge_files(two, three))


@patient
@given(files, files)
def test_merging_is_idempotent(one: TaskFile, other: TaskFile) -> None:
    assert merge_files(one, one) == one
    merged = merge_files(one, other)
    assert merge_files(merged, one) == merge_files(merged, other) == merged


@patient
@given(files, files)
def test_the_fastest_of_each_class_is_never_lost_and_nothing_is_invented(one: TaskFile, other: TaskFile) -> None:
    merged = merge_files(one, other)
    both = (*one.records, *other.records)
    assert set(merged.records) <= set(both)
    for device_class in CLASSES:
        times = [record.seconds for record in both if record.measured_on == device_class]
        kept = merged.best_on(device_class)
        assert [record.seconds for record in kept[:1]] == ([min(times)] if times else [])
        assert len(kept) == min(BEST, len({record.trace for record in both if record.measured_on == device_class}))
        assert merged.searched_on(device_class) == max(one.searched_on(device_class), other.searched_on(device_class))
    assert set(merged.exhausted) == {*one.exhausted, *other.exhausted}


@patient
@given(files, files)
def test_a_merged_file_reads_back(tmp_path_factory: pytest.TempPathFactory, one: TaskFile, other: TaskFile) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "merged.json"
    merged = merge_files(one, other)
    write_task_file(path, merged)
    assert read_task_file(path) == merged


BASE = TaskFile("a" * 16, "conv2d", "{}", HERE, "0.27.0", (Record(trace(0), 1e-6, "znver4", 2, "0.27.0"),))


def test_what_only_one_knows_to_have_spent_stays() -> None:
    one = replace(BASE, spent=FrozenMap({"znver4": 7.5}))
    other = replace(BASE, spent=FrozenMap({"cortex-a72": 1.0, "znver4": 9.0}))
    assert merge_files(one, BASE).spent == {"znver4": 7.5}
    assert list(merge_files(one, other).spent.items()) == [("cortex-a72", 1.0), ("znver4", 9.0)]


def test_what_was_spent_is_that_of_the_candidates_that_are_counted() -> None:
    one = replace(BASE, searched=FrozenMap({"znver4": 8}), spent=FrozenMap({"znver4": 8.0}))
    assert merge_files(one, replace(BASE, searched=FrozenMap({"znver4": 64}))).spent == {}
    fewer = replace(BASE, searched=FrozenMap({"znver4": 4}), spent=FrozenMap({"znver4": 9.0}))
    assert merge_files(one, fewer).spent == one.spent


def test_a_name_is_preferred_to_that_of_what_a_database_gave() -> None:
    for imported in (replace(BASE, name=IMPORTED, tvm="0.99"), replace(BASE, name=IMPORTED, tvm="0.1")):
        assert merge_files(BASE, imported).name == merge_files(imported, BASE).name == "conv2d"


def test_two_tasks_or_two_targets_are_refused() -> None:
    with pytest.raises(TvmbuildError, match="records of two Tasks"):
        merge_files(BASE, replace(BASE, key="b" * 16))
    with pytest.raises(TvmbuildError, match=r"were made for different targets: .*num-cores.* and ") as caught:
        merge_files(BASE, replace(BASE, target=THERE))
    assert "targets.yaml" in (caught.value.hint or "")


def test_the_branch_that_made_its_records_for_another_target_is_taken_whole() -> None:
    moved, more = replace(BASE, target=THERE, records=()), BASE.with_results("znver4", (), 32)
    assert merge_branches(BASE, more, moved) == moved
    assert merge_branches(BASE, moved, more) == moved
    assert merge_branches(BASE, more, BASE) == more
    for ancestor in (None, replace(BASE, target='{"kind":"cuda"}')):
        with pytest.raises(TvmbuildError, match="different targets"):
            merge_branches(ancestor, more, moved)
