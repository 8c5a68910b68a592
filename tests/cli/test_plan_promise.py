"""The predictions of `tvmbuild plan` are the actions of the next run, with the real compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from doit_project import ON_V3, DoitProject, write_project

pytestmark = pytest.mark.compiler

CELL = "digits@v3"


def _plan(project: DoitProject, *words: str) -> dict[str, Any]:
    ran = project.tvmbuild("plan", "--json", *words)
    assert ran.code == 0, ran.output
    value: dict[str, Any] = json.loads(ran.output)
    return value


def _states(plan: dict[str, Any]) -> dict[str, str]:
    return {step["id"]: step["state"] for step in plan["steps"]}


@pytest.mark.nightly
@pytest.mark.nights(2)
def test_the_price_is_what_is_then_measured(tmp_path: Path, digits: Path) -> None:
    project = write_project(tmp_path, digits, ON_V3)
    first = _plan(project)
    assert set(_states(first).values()) == {"would run"}
    assert first["total"]["tasks"] is None

    # The Tasks become known without a search, and with them the price, by a usual machine's rates: none was searched.
    assert project.doit(f"tune:{CELL}", "tune=never").code == 0
    plan = _plan(project, f"tune:{CELL}")
    assert _states(plan) == {"simplify:digits": "up to date", f"tune:{CELL}": "would run"}
    total = plan["total"]
    assert (total["covered"], total["to_tune"], total["trials"]) == (0, 2, 4)
    assert 0 < total["seconds_range"][0] < total["seconds_range"][1]
    assert not (project.root / "build" / "tuning-rates.json").exists()

    info = _tune(project)
    assert (len(info["searched_now"]), info["measured_now"]) == (total["to_tune"], total["trials"])
    assert info["tasks"] == total["tasks"]

    # Now there is a history. The price is an upper bound, because a search may end earlier.
    rates = json.loads((project.root / "build" / "tuning-rates.json").read_text())["rates"]["llvm local"]
    assert sum(trials for trials, _ in rates.values()) == info["measured_now"]
    project.edit("targets.yaml", "trials_per_task: 2", "trials_per_task: 3")
    total = _plan(project, f"tune:{CELL}")["total"]
    assert (total["covered"], total["to_tune"], total["trials"]) == (2, 2, 2)
    assert 0 < total["seconds"] < 600
    assert _tune(project)["measured_now"] <= total["trials"]
    after = _plan(project, f"tune:{CELL}")
    assert set(_states(after).values()) == {"up to date"}
    assert after["total"]["to_tune"] == after["total"]["trials"] == after["total"]["seconds"] == 0


def _tune(project: DoitProject) -> dict[str, Any]:
    ran = project.doit(f"tune:{CELL}")
    assert (ran.code, ran.steps) == (0, [f"tune:{CELL}"]), ran.output
    info: dict[str, Any] = json.loads((project.root / "build" / "cells" / CELL / "tune.json").read_text())
    return info
