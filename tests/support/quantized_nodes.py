"""One node of quantised tensors beside ONNX Runtime: a model of it, and both sides' numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.exact_integers import use_exact_integers

MICROSOFT = "com.microsoft"
BYTES = ("uint8", "int8")


@dataclass
class Drawn:
    """The inputs of a node while they are drawn: fed arrays and constants by name."""

    random: np.random.Generator
    draw: st.DrawFn | None = None
    fed: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def start(cls, draw: st.DrawFn) -> Drawn:
        """Return an empty draw."""
        return cls(np.random.default_rng(draw(st.integers(0, 9999))), draw)

    def pick(self, *choices: Any) -> Any:
        """Draw one of the choices."""
        assert self.draw is not None
        return self.draw(st.sampled_from(choices))

    def tensor(self, name: str, shape: tuple[int, ...], kind: str, *, known: bool = False) -> str:
        """Add a tensor of random numbers, or of one extreme; ``known`` ones are constants."""
        limits, style = np.iinfo(kind), self.pick("random", "random", "random", "lowest", "highest")
        low, high = {"lowest": (limits.min,) * 2, "highest": (limits.max,) * 2}.get(style, (limits.min, limits.max))
        values = self.random.integers(low, high, shape, dtype=kind, endpoint=True)
        (self.constants if known else self.fed)[name] = values
        return name

    def constant(self, name: str, values: Any, kind: str = "float32") -> str:
        """Add a constant."""
        self.constants[name] = np.array(values, kind)
        return name

    def scale(self, name: str, shape: tuple[int, ...] = (), most: float = 0.1) -> str:
        """Add a scale, or one for each channel."""
        return self.constant(name, self.random.uniform(most / 50, most, shape).astype("float32"))

    def zero_point(self, name: str, kind: str, shape: tuple[int, ...] = ()) -> str:
        """Add a zero point, or one for each channel."""
        limits = np.iinfo(kind)
        low, high = self.pick((0, 0), (limits.min, limits.max), (limits.min, limits.min), (limits.max, limits.max))
        return self.constant(name, self.random.integers(low, high, shape, endpoint=True), kind)

    def model(self, node: onnx.NodeProto, opset: int = 17) -> onnx.ModelProto:
        """Return the model of the one node."""
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.fed.items()
        ]
        graph = helper.make_graph(
            [node],
            "node",
            values,
            [helper.make_empty_tensor_value_info(name) for name in node.output],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run_onnx(model: onnx.ModelProto, fed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Compute the model as it is written, with exact sums."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    exact = use_exact_integers(model.SerializeToString())
    session = onnxruntime.InferenceSession(exact, options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, dict(fed))]


def run_built(model: onnx.ModelProto, fed: Mapping[str, np.ndarray], cpu: tvm.target.Target) -> list[np.ndarray]:
    """Compute the outputs of the built model."""
    return list(build_here(lower(import_model(model, "node"), cpu), cpu)(fed).values())


def check(
    drawn: tuple[onnx.ModelProto, Mapping[str, np.ndarray]],
    cpu: tvm.target.Target,
    steps: int = 0,
    allowed: np.ndarray | None = None,
) -> None:
    """Assert that each output is ONNX Runtime's, or, for one in a hundred elements, ``steps`` from it.

    ``allowed`` is the distance that each number of a sum of floats may have from it.
    """
    for got, want in zip(run_built(*drawn, cpu), run_onnx(*drawn), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if allowed is not None and want.dtype.kind == "f":
            far = np.abs(got.astype(np.float64) - want) > allowed
            assert not np.any(far), f"{got[far]} instead of {want[far]}, which may be {allowed[far]} apart"
            continue
        if steps == 0 or want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-5 * steps, atol=1e-5 * steps)
            continue
        apart = np.abs(got.astype(np.int64) - want.astype(np.int64))
        assert apart.max(initial=0) <= steps
        assert np.count_nonzero(apart) <= max(1, want.size // 100)
