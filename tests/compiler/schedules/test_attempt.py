"""A rule may refuse a function; tests raise a bug in a rule, and builds report it and go on without the rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tvm
from onnx import helper
from tvm import s_tir, te, topi

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import build_package
from tvmbuild.compiler.bugs import RAISE_BUGS, collect_bugs
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.schedules.attempt import ScheduleRefused, try_dlight, try_rule
from tvmbuild.compiler.schedules.cpu import rules
from tvmbuild.package.metadata import PackageTarget

SaveModel = Callable[..., Path]
TOLD = "a bug in tvmbuild, please report it: the schedule rule test_attempt.slip failed: TypeError: a slip of ours"


def refuse() -> None:
    raise ScheduleRefused("a form that it does not take")


def slip(*_: Any, **__: Any) -> bool:
    raise TypeError("a slip of ours")


def misuse() -> None:
    x = te.placeholder((8,), "float32")
    sch = s_tir.Schedule(te.create_prim_func([x, topi.nn.relu(x)]), error_render_level="none")
    sch.compute_inline(sch.get_child_blocks(sch.get_sblock("root"))[0])  # it writes the output


@pytest.mark.parametrize("rule", [refuse, misuse])
def test_a_rule_may_refuse_and_so_may_a_primitive_of_tvms(rule: Callable[[], None]) -> None:
    assert try_rule(rule) is None


def test_a_bug_in_a_rule_is_raised_in_tests() -> None:
    with pytest.raises(TypeError, match="a slip of ours"):
        try_rule(slip)


def test_a_bug_in_a_rule_is_told_and_the_next_rule_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RAISE_BUGS, "0")
    monkeypatch.setattr(rules, "schedule_tiled", slip)
    x, w = (te.placeholder((64, 64), "float32") for _ in range(2))
    function = te.create_prim_func([x, w, topi.matmul(x, w)])
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    with collect_bugs() as bugs:
        scheduled = rules.schedule_function(function, describe_machine(target))
    assert list(bugs) == [TOLD]
    assert "T.parallel" in scheduled.script()


def test_dlight_may_fail_as_it_likes() -> None:
    x = te.placeholder((8,), "float32")
    function = te.create_prim_func([x, topi.nn.relu(x)])
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    assert try_dlight(SimpleNamespace(apply=slip), function, target) is None


@pytest.mark.compiler
def test_a_package_says_that_a_rule_failed(save_model: SaveModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RAISE_BUGS, "0")
    monkeypatch.setattr(rules, "schedule_injective", slip)
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 2}))
    package = build_package(save_model([helper.make_node("Relu", ["x"], ["y"])]), target)
    assert package.info.notes == (TOLD,)
