"""The list of passes keeps the order that its rows demand, and an error names the pass that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper

from tvmbuild.compiler import pipeline
from tvmbuild.compiler.bugs import RAISE_BUGS, collect_bugs, report_bug
from tvmbuild.compiler.dump import format_table, record_passes
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pass_manager import (
    LayoutUnsupported,
    Lowering,
    Pass,
    PassError,
    Phase,
    add_notes,
    observe_passes,
    of_module,
    read_notes,
    run_passes,
    skip_passes,
)
from tvmbuild.compiler.pipeline import PHASES, lower
from tvmbuild.compiler.remarks import missed
from tvmbuild.compiler.schedules.cpu.tir_passes import TIR_PASSES
from tvmbuild.errors import TvmbuildError

SaveModel = Callable[..., Path]
EMPTY = tvm.ir.IRModule({})
PASSES = [each for phase in (*PHASES, TIR_PASSES) for each in phase.passes]
NAMES = [each.name for each in PASSES]
ORDERS = [
    pytest.param(first, second, id=f"{first}-{second}")
    for each in PASSES
    for first, second in [*((other, each.name) for other in each.after), *((each.name, other) for other in each.before)]
]


@pytest.fixture
def lowering(cpu: tvm.target.Target) -> Lowering:
    return Lowering(cpu, "NHWC")


def fail(_: tvm.ir.IRModule) -> tvm.ir.IRModule:
    raise TypeError("a slip of ours")


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_a_pass_runs_after_those_that_it_needs(first: str, second: str) -> None:
    assert NAMES.index(first) < NAMES.index(second)


def test_a_pass_has_a_name_of_its_own() -> None:
    assert [name for name, number in Counter(NAMES).items() if number > 1] == []


def test_every_reason_is_a_sentence() -> None:
    assert all(len(why.split()) > 2 for each in PASSES for why in [*each.after.values(), *each.before.values()])


def test_passes_run_in_order_where_they_apply(lowering: Lowering) -> None:
    rows = [of_module(name, lambda mod, name=name: add_notes(mod, [name])) for name in "abc"]  # type: ignore[misc]
    rows[1] = Pass("b", rows[1].change, (lambda asked: asked.layout == "NCHW",))
    assert read_notes(run_passes([Phase("p", rows)], EMPTY, lowering)) == ("a", "c")
    assert read_notes(run_passes([Phase("p", rows)], EMPTY, Lowering(lowering.target, "NCHW"))) == ("a", "b", "c")


def test_a_pass_that_is_left_out_does_not_run(lowering: Lowering) -> None:
    phase = Phase("a phase", (of_module("Fails", fail), Pass("Notes", lambda mod, _: add_notes(mod, ["ran"]))))
    with skip_passes({"Fails"}):
        assert read_notes(run_passes([phase], EMPTY, lowering)) == ("ran",)
    with pytest.raises(PassError):
        run_passes([phase], EMPTY, lowering)


def test_a_pass_that_changes_nothing_returns_the_very_module(lowering: Lowering) -> None:
    assert run_passes([Phase("p", [of_module("a", lambda mod: mod)])], EMPTY, lowering).same_as(EMPTY)


def test_an_error_is_told_with_the_name_of_its_pass(lowering: Lowering) -> None:
    with pytest.raises(PassError, match=r"^SinkTransposes: a slip of ours") as caught:
        run_passes([Phase("p", [of_module("SinkTransposes", fail)])], EMPTY, lowering)
    assert isinstance(caught.value.error, TypeError)
    assert not caught.value.failed.is_tvms


@pytest.mark.parametrize("error", [TvmbuildError("no", "do"), LayoutUnsupported("no NHWC code")])
def test_what_a_pass_says_keeps_its_type_on_the_way_through_tvm(lowering: Lowering, error: Exception) -> None:
    def say(_: tvm.ir.IRModule) -> tvm.ir.IRModule:
        raise error

    with pytest.raises(type(error)) as caught:
        run_passes([Phase("p", [of_module("a", say)])], EMPTY, lowering)
    assert caught.value is error


def test_an_observer_sees_each_pass_with_what_it_was_given_and_made(lowering: Lowering) -> None:
    seen: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = []
    phase = Phase("p", [of_module("a", lambda mod: add_notes(mod, ["n"])), of_module("b", lambda mod: mod)])
    with observe_passes(
        lambda run: seen.append((run.phase.name, run.which.name, read_notes(run.before), read_notes(run.after)))
    ):
        run_passes([phase], EMPTY, lowering)
    assert seen == [("p", "a", (), ("n",)), ("p", "b", ("n",), ("n",))]


def test_tvms_own_instruments_see_our_passes(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    timing = tvm.ir.instrument.PassTimingInstrument()
    imported = import_onnx(save_convnet())
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        lower(imported, cpu)
        profile = timing.render()
    assert all(name in profile for name in ("FuseAttention", "SinkTransposes", "PadConvChannels", "FuseOps"))


def _replace(monkeypatch: pytest.MonkeyPatch, phase: str, name: str, change: Callable[..., tvm.ir.IRModule]) -> None:
    found: Phase = getattr(pipeline, phase)
    rows = [of_module(name, change, *each.when) if each.name == name else each for each in found.passes]
    monkeypatch.setattr(pipeline, phase, Phase(found.name, rows))


def test_a_bug_in_a_pass_is_raised_in_tests(
    save_convnet: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    _replace(monkeypatch, "LAYOUT", "SinkTransposes", fail)
    with pytest.raises(TypeError, match="a slip of ours"):
        lower(import_onnx(save_convnet()), cpu)


def test_a_bug_in_a_pass_is_told_as_such_elsewhere(
    save_convnet: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    _replace(monkeypatch, "LAYOUT", "SinkTransposes", fail)
    monkeypatch.setenv(RAISE_BUGS, "0")
    with collect_bugs() as bugs:
        lowered = lower(import_onnx(save_convnet()), cpu)
    assert list(bugs) == [
        "a bug in tvmbuild, please report it: the pass SinkTransposes failed: TypeError: a slip of ours"
    ]
    assert lowered.layout == "NCHW"
    assert lowered.notes == ("slow: its convolutions stay in NCHW: SinkTransposes failed: a slip of ours",)


def test_a_bug_where_no_layout_is_left_is_raised_as_it_is(
    save_model: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    _replace(monkeypatch, "PRODUCTS", "ByteLookupTables", fail)
    monkeypatch.setenv(RAISE_BUGS, "0")
    with pytest.raises(TypeError, match=r"^a slip of ours$"):
        lower(import_onnx(save_model([helper.make_node("Relu", ["x"], ["y"])])), cpu)


def test_convolutions_that_have_a_choice_are_read_from_the_finished_module(
    save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    weights = {"w": np.ones((20, 16, 3, 3), "float32")}  # padded to whole vectors
    lowered = lower(import_onnx(save_model(nodes, weights, shape=(1, 16, 8, 8))), cpu)
    assert [each.weights.shape for each in lowered.convolutions] == [(3, 3, 16, 24)]
    assert dict(lowered.mod.attrs or {}) == {}
    held = [each.value for each in _list_constants(lowered.mod)]
    assert all(any(each.weights.same_as(value) for value in held) for each in lowered.convolutions)


def _list_constants(mod: tvm.ir.IRModule) -> list[tvm.ir.GenericConst]:
    found: list[tvm.ir.GenericConst] = []

    def note(expr: object) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            found.append(expr)

    tvm.relax.analysis.post_order_visit(mod["main"], note)
    return found


def test_a_bug_that_nobody_collects_is_one_line_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(RAISE_BUGS, "")
    report_bug("the schedule rule cpu.tile", ValueError("first\nsecond at /home/ann/x.py"))
    assert capsys.readouterr().err == (
        "a bug in tvmbuild, please report it: the schedule rule cpu.tile failed: ValueError: second at x.py\n"
    )


def test_the_layout_that_was_asked_for_is_the_first_that_is_tried(
    save_convnet: SaveModel, cpu: tvm.target.Target
) -> None:
    imported = import_onnx(save_convnet())
    each = lower(imported, cpu, "NHWC each")
    assert (each.layout, each.notes) == ("NHWC", ())


def test_what_rewrites_leave_is_told_with_the_pass(lowering: Lowering) -> None:
    def look(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
        for reason in ("computed weights", "computed weights", "of a kind that nobody foresaw"):
            assert missed(reason) is None
        return mod

    assert missed("told nobody") is None
    with record_passes() as ran:
        run_passes([Phase("phase", [of_module("Look", look), of_module("Other", lambda mod: mod)])], EMPTY, lowering)
    assert [dict(each.missed) for each in ran] == [{"computed weights": 2, "of a kind that nobody foresaw": 1}, {}]
    assert "      missed 2: computed weights" in format_table(ran)
