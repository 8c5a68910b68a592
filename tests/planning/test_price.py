from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Settings, Step, TuneMode, TuneStep
from tvmbuild.planning.price import CellPrice, Known, TaskPrice, TotalPrice, price_cells, total_price
from tvmbuild.records.choices import Graph
from tvmbuild.records.journal import Entry, append_entry
from tvmbuild.records.selection import TaskId, resolved_target
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.tuning.rates import NO_TIME, Seconds, Spent, add_rates

KEY, OTHER = "a" * 16, "b" * 16
CONV, SUM = TaskId(KEY, "conv2d", 3), TaskId(OTHER, "sum", 1)
TRACE = canonical_json({"decisions": [], "instructions": [["Seed", [], [1], []]]})
ONE, BOTH = Known((CONV,)), Known((CONV, SUM))
DEFAULTS = TuneOptions()


def make_step(
    root: Path, tune: TuneOptions = DEFAULTS, mode: TuneMode = "missing", cell: str = "net@pc", cores: int = 2
) -> Step[TuneStep]:
    attributes: Attributes = FrozenMap({"mcpu": "znver4", "num-cores": cores})
    options = TuneStep(cell.partition("@")[2], "llvm", attributes, FrozenMap(), "here", LocalDevice(), tune)
    return Step("tune", cell, options, root=root, settings=Settings(mode))


@pytest.fixture(autouse=True)
def _half_a_second_a_trial(tmp_path: Path) -> None:
    options = make_step(tmp_path).options
    add_rates(Layout(tmp_path), options, {"conv2d": Spent(1000, 500.0), "sum": Spent(1000, 500.0)})


def middle(price: CellPrice | TaskPrice | TotalPrice) -> float:
    assert price.seconds is not None
    assert price.seconds == NO_TIME or price.seconds.low < price.seconds.high
    return round(price.seconds.middle, 3)


def test_a_limit_in_minutes_is_the_most_that_a_cell_takes(tmp_path: Path) -> None:
    for minutes, seconds in ((None, 32.0), (0.2, 12.0), (60.0, 32.0)):
        (price,) = price_cells([(make_step(tmp_path, TuneOptions(minutes=minutes)), ONE)])
        assert middle(price) == pytest.approx(seconds) if minutes != 0.2 else price.seconds == Seconds(12.0, 12.0)


def put(step: Step[TuneStep], key: str = KEY, *, searched: int = 0, records: int = 1, ended: str = "") -> None:
    options = step.options
    file = TaskFile(
        key,
        "conv2d",
        "{}",
        canonical_json(resolved_target(options).to_json()),
        "0.27.0",
        records=(Record(TRACE, 1e-6, "here", 2, "0.27.0"),) * records,
        searched=FrozenMap({"here": searched}),
        exhausted=(ended,) if ended else (),
    )
    write_task_file(record_path(Layout(step.root).records(options.target), key), file)


@pytest.mark.parametrize(
    ("tune", "mode", "searched", "ended", "trials", "seconds"),
    [
        (TuneOptions(), "missing", 0, "", 64, 32.0),
        (TuneOptions(), "missing", 16, "", 48, 24.0),
        (TuneOptions(), "missing", 63, "", 1, 0.5),
        (TuneOptions(), "missing", 64, "", 0, 0.0),
        (TuneOptions(), "missing", 99, "", 0, 0.0),
        (TuneOptions(), "missing", 16, "here", 0, 0.0),
        (TuneOptions(trials_per_task=20), "missing", 16, "", 4, 2.0),
        (TuneOptions(trials=30), "missing", 16, "", 14, 7.0),
        (TuneOptions(ops=("sum",)), "missing", 16, "", 0, 0.0),
        (TuneOptions(ops=("conv*",)), "missing", 16, "", 48, 24.0),
        (TuneOptions(), "never", 16, "", 0, 0.0),
        (TuneOptions(), "full", 16, "", 64, 32.0),
        (TuneOptions(), "full", 16, "here", 64, 32.0),
        (TuneOptions(trials=30), "full", 64, "", 30, 15.0),
        (TuneOptions(ops=("sum",)), "full", 16, "", 0, 0.0),
    ],
)
def test_price_of_a_task(
    tmp_path: Path, *, tune: TuneOptions, mode: TuneMode, searched: int, ended: str, trials: int, seconds: float
) -> None:
    step = make_step(tmp_path, tune, mode)
    put(step, searched=searched, ended=ended)
    (price,) = price_cells([(step, ONE)])
    assert (price.covered, price.to_tune, price.trials, middle(price)) == (1, int(trials > 0), trials, seconds)


def test_what_is_not_searched_here_costs_nothing(tmp_path: Path) -> None:
    step = replace(make_step(tmp_path), unavailable="no code for it")
    for tasks in (None, ONE):
        (price,) = price_cells([(step, tasks)])
        assert (price.to_tune, price.trials, middle(price)) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("tune", "mode", "expected"),
    [
        (TuneOptions(), "missing", (None, None, None, None)),
        (TuneOptions(), "full", (None, None, None, None)),
        (TuneOptions(), "never", (None, 0, 0, NO_TIME)),
        (TuneOptions(ops=()), "missing", (None, 0, 0, NO_TIME)),
    ],
)
def test_a_cell_whose_tasks_are_not_known(
    tmp_path: Path, tune: TuneOptions, mode: TuneMode, expected: tuple[int | Seconds | None, ...]
) -> None:
    prices = price_cells([(make_step(tmp_path, tune, mode), None)])
    assert (prices[0].covered, prices[0].to_tune, prices[0].trials, prices[0].seconds) == expected
    total = total_price(prices)
    assert (total.tasks, total.known_tasks, total.seconds) == (None, 0, expected[3])


@pytest.mark.parametrize("records", [0, 1])
def test_covered_is_having_a_record(tmp_path: Path, records: int) -> None:
    step = make_step(tmp_path)
    put(step, searched=64, records=records)
    (price,) = price_cells([(step, BOTH)])
    assert (price.covered, price.to_tune) == (records, 1)


def test_records_for_other_attributes_do_not_count(tmp_path: Path) -> None:
    put(make_step(tmp_path, cores=4), searched=64)
    (price,) = price_cells([(make_step(tmp_path), ONE)])
    assert (price.covered, price.trials, middle(price)) == (0, 64, 32.0)  # they still show how long it takes


def test_a_shared_task_is_paid_by_the_first_cell(tmp_path: Path) -> None:
    first, second = make_step(tmp_path, cell="a@pc"), make_step(tmp_path, cell="b@pc")
    put(first, searched=32)
    prices = price_cells([(first, ONE), (second, BOTH)])
    assert [(price.to_tune, price.trials, middle(price)) for price in prices] == [(1, 32, 16.0), (1, 64, 32.0)]
    total = total_price(prices)
    assert (total.tasks, total.covered, total.to_tune, total.trials, middle(total)) == (2, 1, 2, 96, 48.0)


def test_the_second_cell_pays_what_it_wants_more(tmp_path: Path) -> None:
    first = make_step(tmp_path, TuneOptions(trials=20), cell="a@pc")
    second = make_step(tmp_path, TuneOptions(trials=50), cell="b@pc")
    put(first, searched=8)
    prices = price_cells([(first, ONE), (second, ONE)])
    assert [price.trials for price in prices] == [12, 30]
    total = total_price(prices)
    assert (total.tasks, total.to_tune, total.trials, middle(total)) == (1, 1, 42, 21.0)


def test_full_measures_a_shared_task_in_each_cell(tmp_path: Path) -> None:
    cells = [(make_step(tmp_path, mode="full", cell=f"{name}@pc"), ONE) for name in "ab"]
    prices = price_cells(cells)
    assert [price.trials for price in prices] == [64, 64]
    assert total_price(prices).to_tune == 1


def test_equal_tasks_of_two_targets_are_two(tmp_path: Path) -> None:
    cells = [(make_step(tmp_path, cell=f"net@{target}"), ONE) for target in ("pc", "laptop")]
    total = total_price(price_cells(cells))
    assert (total.tasks, total.to_tune, total.trials, middle(total)) == (2, 2, 128, 64.0)


def test_a_total_without_all_cells(tmp_path: Path) -> None:
    step = make_step(tmp_path, cell="a@pc")
    put(step, searched=32)
    total = total_price(price_cells([(step, ONE), (make_step(tmp_path, cell="b@pc"), None)]))
    assert (total.tasks, total.known_tasks, total.trials, total.seconds) == (None, 1, 32, None)
    assert round(total.known_seconds.middle, 3) == 16.0


def test_a_damaged_record_file_is_none(tmp_path: Path) -> None:
    step = make_step(tmp_path)
    put(step, searched=64)
    record_path(Layout(tmp_path).records("pc"), KEY).write_text("{")
    (price,) = price_cells([(step, ONE)])
    assert (price.covered, price.trials) == (0, 64)


def test_no_cell_and_no_task_cost_nothing(tmp_path: Path) -> None:
    assert total_price(price_cells([])).seconds == NO_TIME
    assert price_cells([(make_step(tmp_path), Known(()))])[0].seconds == NO_TIME


def test_what_an_interrupted_search_has_measured_is_not_paid_again(tmp_path: Path) -> None:
    step = make_step(tmp_path)
    put(step, searched=32)
    for measured in (33, 40):
        append_entry(Layout(tmp_path).journal("pc", KEY), Entry("here", measured, None))
    append_entry(Layout(tmp_path).journal("pc", OTHER), Entry("here", 10, None))
    (price,) = price_cells([(step, BOTH)])
    assert [task.trials for task in price.tasks or ()] == [24, 54]


def test_further_ways_to_compute_a_convolution_are_searched_too(tmp_path: Path) -> None:
    graph = Graph("0" * 16, ("1x8x8x8 to 8", "1x4x4x8 to 8"))
    (price,) = price_cells([(make_step(tmp_path), Known((CONV,), (graph,)))])
    assert (price.to_tune, price.trials) == (1 + 2 * 2 * 2, 9 * 64)
    assert middle(price) > 32.0
    (price,) = price_cells([(make_step(tmp_path, mode="never"), Known((CONV,), (graph,)))])
    assert price.trials == 0
    (price,) = price_cells([(make_step(tmp_path, TuneOptions(algorithms=("direct",))), Known((CONV,), (graph,)))])
    assert price.trials == 64
