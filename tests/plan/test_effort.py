from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.effort import Effort, History, read_efforts, stem
from tvmbuild.records.store import TaskFile, record_path, write_task_file
from tvmbuild.specs import DeviceSpec, TuneOptions
from tvmbuild.steps import TuneStep

OPTIONS = TuneStep("pc", "llvm", (), (), None, DeviceSpec(), TuneOptions())
TARGET = '{"attributes":{},"host":{},"kind":"llvm"}'


def file(name: str, spent: dict[str, tuple[int, float]], *ended: str, kind: str = "llvm") -> TaskFile:
    """A Task's file in which each device class has measured so many candidates in so many seconds."""
    return TaskFile(
        key="0" * 16,
        name=name,
        workload="{}",
        target=TARGET.replace("llvm", kind),
        tvm="0.27.0",
        searched=tuple(sorted((on, count) for on, (count, _) in spent.items())),
        spent=tuple(sorted((on, seconds) for on, (_, seconds) in spent.items() if seconds)),
        exhausted=ended,
    )


def put(records: Path, target: str, *files: TaskFile) -> None:
    for number, each in enumerate(files):
        write_task_file(record_path(records / target, f"{number:016x}"), each)


CONV_1S, CONV_3S = file("conv2d_add", {"here": (10, 10.0)}), file("conv2d", {"here": (10, 30.0)})
MATMUL_2S = file("matmul_add", {"here": (10, 20.0)})
SUM_9S = file("sum", {"here": (10, 90.0)})
THERE_7S = file("conv2d", {"there": (10, 70.0)})
ENDED = file("conv2d", {"here": (2, 8.0)}, "here")


@pytest.mark.parametrize(
    ("name", "own", "pc", "laptop", "seconds"),
    [
        ("conv2d", None, [], [], None),
        ("conv2d", file("conv2d", {"here": (10, 5.0)}), [CONV_3S], [], 10.0),  # its own effort first
        ("conv2d", file("conv2d", {"there": (10, 5.0)}), [CONV_3S], [], 60.0),  # not another machine's
        ("conv2d", file("conv2d", {"here": (10, 0.0)}), [CONV_3S], [], 60.0),  # searched before seconds were kept
        ("conv2d_relu", None, [CONV_1S, CONV_3S, SUM_9S], [], 40.0),  # the median of the same word
        ("dense_add", None, [CONV_1S, MATMUL_2S], [], 40.0),  # dense and matmul are one
        ("max_pool", None, [CONV_1S, CONV_3S, SUM_9S], [], 60.0),  # else of all Tasks of the target
        ("conv2d", None, [], [CONV_1S], 20.0),  # else of other targets
        ("conv2d", None, [], [file("conv2d", {"here": (10, 10.0)}, kind="cuda")], None),  # of the same kind
        ("conv2d", None, [THERE_7S], [], 140.0),  # other machines better than nothing
        ("conv2d", None, [THERE_7S, CONV_1S], [], 20.0),  # but never beside this one's
        ("conv2d", None, [ENDED], [], 8.0),  # more trials would have cost nothing more
        ("conv2d", None, [SUM_9S], [CONV_1S], 180.0),  # the target before the word
    ],
)
def test_estimate_of_20_trials(
    tmp_path: Path,
    *,
    name: str,
    own: TaskFile | None,
    pc: list[TaskFile],
    laptop: list[TaskFile],
    seconds: float | None,
) -> None:
    put(tmp_path, "pc", *pc)
    put(tmp_path, "laptop", *laptop)
    history = History(tmp_path, "here")
    assert history.estimate(OPTIONS, name, own, 20) == seconds
    assert history.estimate(OPTIONS, name, own, 20) == seconds  # the second time from memory


@pytest.mark.parametrize(
    ("name", "word"), [("conv2d_add", "conv2d"), ("conv2d", "conv2d"), ("dense", "matmul"), ("matmul_x", "matmul")]
)
def test_stem(name: str, word: str) -> None:
    assert stem(name) == word


def test_read_efforts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_task_file(path, file("conv2d", {"a": (4, 2.0), "b": (8, 0.0), "c": (2, 6.0)}, "c"))
    assert read_efforts(path) == (
        Effort("llvm", "conv2d", "a", 4, 2.0, ended=False),
        Effort("llvm", "conv2d", "c", 2, 6.0, ended=True),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"spent": {"a": "x"}},
        {"spent": {"a": -1}},
        {"spent": {"a": 1e400}},
        {"spent": {"a": None}},
        {"spent": {"z": 1.0}},
        {"spent": []},
        {"searched": {"a": 0}},
        {"searched": {"a": 1e400}},
        {"searched": 7},
        {"exhausted": 7},
        {"target": 7},
        {"name": None, "target": None},
    ],
)
def test_hostile_values_are_no_history(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "a.json"
    good = {"name": "conv2d", "target": {"kind": "llvm"}, "searched": {"a": 4}, "spent": {"a": 2.0}, "exhausted": []}
    path.write_text(json.dumps(good))
    assert len(read_efforts(path)) == 1
    path.write_text(json.dumps(good | change))
    assert read_efforts(path) == ()


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000, "\udcff"])
def test_hostile_files_are_no_history(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert read_efforts(path) == ()
    assert read_efforts(tmp_path / "absent.json") == ()


def test_nothing_is_read_that_is_not_needed(tmp_path: Path) -> None:
    put(tmp_path, "pc", CONV_1S)
    history = History(tmp_path, "here")
    own = replace(CONV_3S, name="conv2d")
    assert history.estimate(OPTIONS, "conv2d", own, 10) == 30.0
    record_path(tmp_path / "pc", "0" * 16).unlink()
    assert history.estimate(OPTIONS, "conv2d", None, 10) is None
