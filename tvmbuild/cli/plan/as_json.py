"""The output of `tvmbuild plan --json`, format 1."""

from __future__ import annotations

from tvmbuild.cli.planned import Planned
from tvmbuild.engine.status import Status
from tvmbuild.package.memory import Memory
from tvmbuild.planning.price import CellPrice
from tvmbuild.tuning.rates import Seconds

FORMAT = 1


def make_json(planned: Planned) -> dict[str, object]:
    """Return the plan as JSON values. Null means that a value is not known."""
    total, memory = planned.total, planned.memory
    return {
        "format": FORMAT,
        "steps": [_step(status) for status in planned.statuses],
        "cells": [
            {**_cell(price, memory.get(price.cell)), "memory_limit": planned.memory_limits.get(price.cell)}
            for price in planned.prices
        ],
        "total": {
            "tasks": total.tasks,
            "covered": total.covered,
            "to_tune": total.to_tune,
            "trials": total.trials,
            **_time(total.seconds),
        },
        "matrix": {"include": _list_cells(planned)},
    }


def _step(status: Status) -> dict[str, object]:
    step = status.step
    return {
        "id": step.id,
        "stage": step.stage,
        "subject": step.subject,
        "state": status.state,
        "reasons": list(status.reasons),
    }


def _cell(price: CellPrice, memory: Memory | None) -> dict[str, object]:
    return {
        **_name(price.cell),
        "tasks": None if price.tasks is None else len(price.all_tasks),
        "covered": price.covered,
        "to_tune": price.to_tune,
        "trials": price.trials,
        "lagging": price.lagging,
        **_time(price.seconds),
        "memory": memory
        and {
            "weights": memory.weights,
            "workspace": memory.workspace,
            "scratch": memory.scratch,
            "code": memory.code,
        },
    }


def _list_cells(planned: Planned) -> list[dict[str, str]]:
    """Return the cells that can be compiled here, as the `include` of a matrix of CI jobs."""
    impossible = {
        status.step.subject
        for status in planned.statuses
        if status.state == "unavailable" and status.step.stage in {"tune", "compile"}
    }
    cells = dict.fromkeys(status.step.subject for status in planned.statuses if "@" in status.step.subject)
    return [_name(cell) for cell in cells if cell not in impossible]


def _name(cell: str) -> dict[str, str]:
    model, _, target = cell.partition("@")
    return {"cell": cell, "model": model, "target": target}


def _time(seconds: Seconds | None) -> dict[str, object]:
    if seconds is None:
        return {"seconds": None, "seconds_range": None}
    return {"seconds": round(seconds.middle, 1), "seconds_range": [round(seconds.low, 1), round(seconds.high, 1)]}
