"""A batch that models.yaml requests of a file whose batch is fixed at 1, and the run of its samples one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvmbuild.base.specs import InputSpec
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.onnx_graph import graph_inputs
from tvmbuild.preparing.reference import Run

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Batch:
    """``size`` samples in one run, with the batch axis of each input and output; tensors without one serve all."""

    size: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int] = field(default_factory=dict)

    def single(self, specs: Sequence[InputSpec]) -> tuple[InputSpec, ...]:
        """Return the specs of one sample."""
        return tuple(replace(spec, shape=self._shrink(spec)) for spec in specs)

    def _shrink(self, spec: InputSpec) -> tuple[int, ...] | None:
        if spec.name not in self.inputs or spec.shape is None:
            return spec.shape
        return tuple(1 if axis == self.inputs[spec.name] else size for axis, size in enumerate(spec.shape))

    def widen(self, sample: TensorInfo) -> TensorInfo:
        """Return the batched form of one sample's input."""
        axis = self.inputs.get(sample.name)
        shape = tuple(self.size if index == axis else size for index, size in enumerate(sample.shape))
        return replace(sample, shape=shape)

    def apart(self, run: Run) -> Run:
        """Return a function that runs each sample of a batch separately with ``run`` and joins the outputs."""

        def run_apart(inputs: Arrays) -> dict[str, np.ndarray]:
            made = [run(self.pick(inputs, index)) for index in range(self.size)]
            return {name: self._join(name, [each[name] for each in made]) for name in made[0]}

        return run_apart

    def pick(self, inputs: Arrays, index: int) -> dict[str, np.ndarray]:
        """Return the inputs of one sample."""
        return {
            name: np.ascontiguousarray(value.take([index], self.inputs[name])) if name in self.inputs else value
            for name, value in inputs.items()
        }

    def _join(self, name: str, values: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(values, self.outputs[name]) if name in self.outputs else values[0]


def find_batch(proto: Any, specs: Sequence[InputSpec], model: str) -> Batch | None:
    """Return the batch that the shapes ask for if the file has 1; None if they only fix dynamic dimensions.

    The batch axis of an input is the one axis on which the file has 1 and models.yaml more; for at least one input it
    is the first. A dynamic input of that size has its samples on the first axis. TvmbuildError for two sizes or two
    axes.
    """
    values = {value.name: value for value in graph_inputs(proto)}
    asked = {spec.name: spec.shape for spec in specs if spec.shape and spec.name in values}
    axes = {name: _changed_axes(values[name], shape) for name, shape in asked.items()}
    changed = {name: each for name, each in axes.items() if each}
    if not any(0 in each for each in changed.values()):
        return None
    sizes = {asked[name][axis] for name, each in changed.items() for axis in each}
    if len(sizes) > 1 or any(len(each) > 1 for each in changed.values()):
        shown = ", ".join(f"{name} {list(asked[name])}" for name in changed)
        raise TvmbuildError(
            f"{model}: {shown}: of the dimensions that the ONNX file fixes at 1 only one of each input can be changed, "
            "to the same number for all: the batch",
            "correct `shape:` in models.yaml, or export the model with these shapes",
        )
    (size,) = sizes
    dynamic = {
        name for name, shape in asked.items() if name not in changed and _begins_dynamic(values[name], shape, size)
    }
    return Batch(size, {name: each[0] for name, each in changed.items()} | dict.fromkeys(sorted(dynamic), 0))


def _changed_axes(value: Any, shape: Sequence[int]) -> list[int]:
    dims = value.type.tensor_type.shape.dim
    if len(dims) != len(shape):
        return []
    return [axis for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)) if dim.dim_value == 1 < size]


def _begins_dynamic(value: Any, shape: Sequence[int], size: int) -> bool:
    dims = value.type.tensor_type.shape.dim
    return len(dims) == len(shape) > 0 and dims[0].dim_value <= 0 and shape[0] == size


def find_axis(one: Sequence[int], many: Sequence[int], size: int) -> int | None:
    """Return the axis on which ``many`` has ``size`` samples of the shape ``one``; None if there is no such axis."""
    for axis, length in enumerate(one):
        if length == 1 and tuple(many) == (*one[:axis], size, *one[axis + 1 :]):
            return axis
    return None
