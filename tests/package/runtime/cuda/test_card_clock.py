"""Operators of a package by the GPU's own clock; CUPTI's reports are made up, except in the last test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from device_kinds import attributes_of
from kernels_model import write_model_of_kernels
from small_package import build_package

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import GRAPH_CALL, GraphTime, Profile
from tvmbuild.package.runtime.cuda.card_clock import CardClock
from tvmbuild.package.runtime.profiler import profile_operators
from tvmbuild.package.runtime.session import Session

KERNEL, COPY = 10, 1


class Cupti:
    """The part of cupti-python that is used."""

    ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=KERNEL, MEMCPY=COPY, MEMSET=2)
    cuptiError = type("cuptiError", (Exception,), {})  # noqa: N815 - CUPTI's name

    def __init__(self) -> None:
        self.enabled: set[int] = set()
        self.pending: list[Any] = []
        self.problem: Exception | None = None
        self.completed: Callable[[list[Any]], None] = print

    def activity_register_callbacks(self, _requested: object, completed: Callable[[list[Any]], None]) -> None:
        self.completed = completed

    def activity_enable(self, kind: int) -> None:
        if self.problem:
            raise self.problem
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        assert flag == 1
        told, self.pending = self.pending, []
        self.completed(told)

    def do(self, kind: int, name: str, start: int, end: int, graph: int = 0) -> None:
        record = SimpleNamespace(kind=kind, start=start, end=end, graph_id=graph)
        if kind == KERNEL:
            record.name = name
        if kind in self.enabled:
            self.pending.append(record)


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> Cupti:
    made = Cupti()
    module = ModuleType("cupti")
    module.cupti = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupti", module)
    return made


def test_a_run_has_the_cards_times_and_those_of_the_hosts_functions(cupti: Cupti) -> None:
    waits: list[None] = []
    clock = CardClock(lambda: waits.append(None), {"conv", "split"})

    def call(name: str, do: Callable[[], None] = lambda: None) -> None:
        clock.note(None, name, True, None)
        do()
        clock.note(None, name, False, None)

    def graph() -> None:
        call("split")  # as when it is captured
        cupti.do(KERNEL, "split_kernel", 200, 203, graph=5)
        cupti.do(KERNEL, "split_kernel_1", 210, 214, graph=5)

    def run() -> None:
        call("conv", lambda: cupti.do(KERNEL, "conv_kernel", 100, 150))
        call("vm.builtin.copy", lambda: cupti.do(COPY, "", 160, 170))
        call(GRAPH_CALL, graph)
        call("tvm.contrib.sort")

    cupti.do(KERNEL, "earlier_kernel", 0, 9)
    for _ in range(3):
        events = clock.run(run)
        assert events[:-1] == [("conv", 50), ("vm.copy", 10), ("split", 7)]
        assert events[-1][0] == "tvm.contrib.sort"
        assert events[-1][1] > 0
    assert len(waits) == 3 * 4  # before and after a run, and a function of the host
    assert clock.finish(2) == GraphTime(kernels=2, sum_us=0.007, us=0.014)
    assert cupti.enabled == set()


def test_a_package_that_names_no_kernels_has_the_cards_times_alone(cupti: Cupti) -> None:
    clock = CardClock(lambda: None, None)

    def run() -> None:
        clock.note(None, "unknown", True, None)
        cupti.do(KERNEL, "unknown_kernel", 1, 3)
        clock.note(None, "unknown", False, None)

    assert clock.run(run) == [("unknown", 2)]
    assert clock.finish(1) is None


def test_without_cupti_it_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(TvmbuildError, match="without CUPTI a CUDA graph is one row") as raised:
        CardClock(lambda: None, None)
    assert raised.value.hint == "`pip install 'tvmbuild[cupti]'` times its kernels"


def test_cupti_that_does_not_work_says_why(cupti: Cupti) -> None:
    cupti.problem = cupti.cuptiError("INSUFFICIENT_PRIVILEGES")
    with pytest.raises(TvmbuildError, match="CUPTI does not work here: INSUFFICIENT_PRIVILEGES"):
        CardClock(lambda: None, None)


def profile_on_card(folder: Path) -> Profile:
    package = build_package(write_model_of_kernels(folder), folder, attributes_of("cuda"), "cuda")
    with Session(package) as session:
        return profile_operators(session, {"x": np.ones((8, 64), "float32")}, repeat=20)


@pytest.mark.cuda
@pytest.mark.compiler
def test_a_card_tells_of_every_kernel_inside_the_graph(tmp_path: Path) -> None:
    pytest.importorskip("cupti")
    profile = profile_on_card(tmp_path)
    assert (profile.clock, profile.remarks) == ("device", ())
    calls = {row.function: row.calls for row in profile.rows if row.key is not None}
    assert calls == {"matmul": 2, "softmax": 2, "scatter_elements": 1, "topk_chunks": 1}
    assert all(row.us > 0 for row in profile.rows)
    assert profile.graph is not None
    assert profile.graph.kernels >= 4  # of all except the first and the last function
    assert 0 < profile.graph.sum_us < sum(row.us for row in profile.rows)
    assert profile.graph.sum_us <= profile.graph.us


@pytest.mark.cuda
@pytest.mark.compiler
def test_without_cupti_the_graph_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    profile = profile_on_card(tmp_path)
    assert (profile.clock, profile.graph) == ("host", None)
    assert profile.remarks == (
        "without CUPTI a CUDA graph is one row; `pip install 'tvmbuild[cupti]'` times its kernels",
    )
    assert "vm.builtin" in {row.function for row in profile.rows}
