"""The table of stages, one row each. No row imports its stage: the child process loads the module by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tvmbuild.base.frozen_map import FrozenMap


@dataclass(frozen=True)
class Stage:
    """One stage: its name, version, subjects, inputs, outputs and module."""

    name: str
    version: int
    """The stage's version. Raise it if the same inputs and options come to mean another output. A refactoring does not
    need that.
    """
    scope: Literal["model", "quantised model", "kept cell", "cell"]
    """The subjects of the stage: all models, the models that are quantised for a target, the cells with operators that
    stay in float32, or all cells.
    """
    inputs: tuple[str, ...]
    """The roles of the input files. `source`, `export` and `labels` are present only if the YAML names a path, `sizes`
    only if the model's shapes vary, `kept` only if operators of the cell stay in float32.
    """
    outputs: FrozenMap[str, str]
    """Role → file name. The name of the package comes from `Layout.package`.

    If several stages write a role, it means the file of the first stage. In cells whose model is quantised here, it
    means the quantised file.
    """
    module: str
    """The name of the Python module, which has ``run(step: Step) -> None``."""

    @property
    def is_of_cells(self) -> bool:
        """Return whether the stage has cells as subjects."""
        return self.scope.endswith("cell")


STAGES: tuple[Stage, ...] = (
    Stage(
        name="simplify",
        version=11,
        scope="model",
        inputs=("source", "export"),
        outputs=FrozenMap(
            {"model": "model.onnx", "reference": "reference.npz", "info": "simplify.json", "sizes": "sizes.json"}
        ),
        module="tvmbuild.stages.simplify",
    ),
    Stage(
        name="quantize",
        version=7,
        scope="quantised model",
        inputs=("model", "reference"),
        outputs=FrozenMap(
            {
                "model": "quantised/model.onnx",
                "reference": "quantised/reference.npz",
                "info": "quantised/quantize.json",
            }
        ),
        module="tvmbuild.stages.quantize",
    ),
    Stage(
        name="keep",
        version=2,
        scope="kept cell",
        inputs=("model", "reference"),
        outputs=FrozenMap({"kept": "kept.json"}),
        module="tvmbuild.stages.keep",
    ),
    Stage(
        name="tune",
        version=26,
        scope="cell",
        inputs=("model", "kept"),
        outputs=FrozenMap({"tasks": "tasks.json", "schedule": "schedule.json", "info": "tune.json"}),
        module="tvmbuild.stages.tune",
    ),
    Stage(
        name="compile",
        version=38,
        scope="cell",
        inputs=("model", "kept", "schedule", "labels", "sizes"),
        outputs=FrozenMap({"package": "*.tar"}),
        module="tvmbuild.stages.compile",
    ),
    Stage(
        name="validate",
        version=5,
        scope="cell",
        inputs=("model", "reference", "schedule", "kept"),
        outputs=FrozenMap({"validated": "validated.json"}),
        module="tvmbuild.stages.validate",
    ),
    Stage(
        name="benchmark",
        version=4,
        scope="cell",
        inputs=("package", "model", "reference"),
        outputs=FrozenMap({"result": "result.json"}),
        module="tvmbuild.stages.benchmark",
    ),
)
