"""The table of stage planners, one row each.

`tvmbuild/stages/table.py` lists the code that runs in the step's process.
"""

from __future__ import annotations

from typing import Any

from tvmbuild.planning.stages.benchmark import Benchmark
from tvmbuild.planning.stages.compile import Compile
from tvmbuild.planning.stages.keep import Keep
from tvmbuild.planning.stages.planner import StagePlanner
from tvmbuild.planning.stages.quantize import Quantize
from tvmbuild.planning.stages.simplify import Simplify
from tvmbuild.planning.stages.tune import Tune
from tvmbuild.planning.stages.validate import Validate

PLANNERS: dict[str, StagePlanner[Any]] = {
    "simplify": Simplify(),
    "quantize": Quantize(),
    "keep": Keep(),
    "tune": Tune(),
    "compile": Compile(),
    "validate": Validate(),
    "benchmark": Benchmark(),
}


def stage_planner(stage: str) -> StagePlanner[Any]:
    """Return the planner of the stage. Raises ValueError if there is no stage of that name."""
    if stage not in PLANNERS:
        raise ValueError(f"there is no stage {stage}")
    return PLANNERS[stage]
