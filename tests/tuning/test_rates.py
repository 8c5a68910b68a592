from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.device_specs import LocalDevice, RpcDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import TuneStep
from tvmbuild.tuning import rates
from tvmbuild.tuning.rates import (
    MAX_TRIALS,
    NO_TIME,
    OTHERS,
    USUAL,
    Seconds,
    Spent,
    add_rates,
    add_seconds,
    find_word,
    read_rates,
)

HERE = TuneStep("pc", "llvm", FrozenMap(), FrozenMap(), None, LocalDevice(), TuneOptions())
BOARD = replace(HERE, device=RpcDevice("127.0.0.1:9190", "pi4"))
CARD = replace(HERE, kind="cuda")


@pytest.fixture(autouse=True)
def _usual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_measure_slowness", lambda: 1.0)


def estimate(root: Path, options: TuneStep, name: str, trials: int = 100, cores: int = 2) -> Seconds | None:
    return read_rates(Layout(root), options, cores).estimate(name, trials)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("conv2d_add", "conv2d"),
        ("pad_conv2d_multiply_sum", "conv2d"),
        ("winograd_inverse_add_relu", "winograd"),
        ("multiply_sum", "sum"),
        ("reshape_transpose", ""),
        ("", ""),
    ],
)
def test_the_word_that_takes_most(name: str, word: str) -> None:
    assert find_word(name) == word


def test_before_the_first_search_a_usual_core_counts(tmp_path: Path) -> None:
    alone, shared = estimate(tmp_path, HERE, "conv2d_add", cores=1), estimate(tmp_path, HERE, "conv2d_add", cores=8)
    cheap = estimate(tmp_path, HERE, "reshape_transpose", cores=1)
    assert alone is not None
    assert shared is not None
    assert cheap is not None
    assert alone.low < 100 * USUAL["conv2d"] < alone.high
    assert 3 < alone.middle / shared.middle < 8  # timing does not become faster
    assert alone.middle / cheap.middle == pytest.approx(USUAL["conv2d"] / OTHERS)


@pytest.mark.parametrize("options", [BOARD, CARD])
def test_elsewhere_nobody_knows_before(tmp_path: Path, options: TuneStep) -> None:
    assert estimate(tmp_path, options, "conv2d") is None
    add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(1000, 500.0)})
    assert estimate(tmp_path, options, "conv2d") is None
    add_rates(Layout(tmp_path), options, {"conv2d": Spent(1000, 500.0)})
    known, like = estimate(tmp_path, options, "conv2d"), estimate(tmp_path, options, "matmul")
    assert known is not None
    assert like is not None
    assert known.middle == like.middle == 50.0
    assert like.high > known.high


def test_what_was_measured_here_counts_and_tells_how_fast_the_machine_is(tmp_path: Path) -> None:
    before = {name: estimate(tmp_path, HERE, name) for name in ("conv2d", "matmul_add")}
    add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(600, 1800.0)})
    add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(400, 1200.0)})
    conv2d, matmul = (estimate(tmp_path, HERE, name) for name in before)
    assert conv2d is not None
    assert matmul is not None
    assert before["conv2d"] is not None
    assert before["matmul_add"] is not None
    assert conv2d.middle == pytest.approx(300.0)
    assert matmul.middle / before["matmul_add"].middle == pytest.approx(conv2d.middle / before["conv2d"].middle)
    assert conv2d.high / conv2d.low < matmul.high / matmul.low


def test_a_handful_of_trials_says_little(tmp_path: Path) -> None:
    add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(20, 400.0), "matmul": Spent(2000, 100.0)})
    guessed = estimate(tmp_path, HERE, "conv2d", 64)
    assert guessed is not None
    assert guessed.middle < 64 * 20 / 2


def test_old_searches_fade(tmp_path: Path) -> None:
    add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(20 * MAX_TRIALS, 20.0 * MAX_TRIALS)})
    for _ in range(8):
        add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(MAX_TRIALS, 3.0 * MAX_TRIALS)})
    now = estimate(tmp_path, HERE, "conv2d")
    assert now is not None
    assert now.middle == pytest.approx(300.0, rel=0.1)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert add_seconds([Seconds(1, 2), Seconds(3, 4)]) == Seconds(4, 6)
    assert add_seconds([]) == NO_TIME
    assert add_seconds([Seconds(1, 2), None]) is None


GOOD = {"format": 1, "rates": {"llvm local": {"conv2d": [1000, 3000.0]}}}


@pytest.mark.parametrize(
    "change",
    [
        {"rates": {"llvm local": {"conv2d": [1000, "x"]}}},
        {"rates": {"llvm local": {"conv2d": [1000]}}},
        {"rates": {"llvm local": {"conv2d": [-5, 1.0]}}},
        {"rates": {"llvm local": {"conv2d": [1000, float("nan")]}}},
        {"rates": {"llvm local": {"conv2d": [1000, -1.0]}}},
        {"rates": {"llvm local": {"conv2d": [1e400, 1.0]}}},
        {"rates": {"llvm local": {"conv2d": [10**400, 1.0]}}},
        {"rates": {"llvm local": {"conv2d": [1000, 1e308]}}},
        {"rates": {"llvm local": {"conv2d": [0.5, 3.0]}}},
        {"rates": {"llvm local": {"\ud800": [1000, 3000.0]}}},
        {"rates": {"llvm local": 7}},
        {"format": 99},
        {"rates": []},
        {"rates": None},
    ],
)
def test_hostile_values_are_no_history(tmp_path: Path, change: Mapping[str, object]) -> None:
    usual, path = estimate(tmp_path, HERE, "conv2d"), Layout(tmp_path).tuning_rates
    path.parent.mkdir()
    path.write_text(json.dumps(GOOD))
    assert estimate(tmp_path, HERE, "conv2d") != usual
    path.write_text(json.dumps({**GOOD, **change}))
    assert estimate(tmp_path, HERE, "conv2d") == usual


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000, "\udcff"])
def test_hostile_files_are_no_history(tmp_path: Path, text: str) -> None:
    usual, path = estimate(tmp_path, HERE, "conv2d"), Layout(tmp_path).tuning_rates
    path.parent.mkdir()
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert estimate(tmp_path, HERE, "conv2d") == usual
    add_rates(Layout(tmp_path), HERE, {"conv2d": Spent(1000, 3000.0)})
    assert estimate(tmp_path, HERE, "conv2d") == Seconds(200.0, 450.0)
