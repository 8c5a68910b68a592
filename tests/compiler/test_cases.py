"""Small networks that failed once, drawn after bug reports of other tools, with ONNX Runtime's results.

``cases/NAME.onnx``, and ``cases/NAME.npz`` with `in:INPUT` and `out:OUTPUT`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from tvmbuild.base.specs import InputSpec, Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.onnx_graph import fix_inputs, load_model
from tvmbuild.preparing.simplify import simplify

pytestmark = pytest.mark.compiler
CASES = Path(__file__).parent / "cases"
RIGHT = (
    "constant_outputs",
    "det3",
    "fold",
    "mask_norm",
    "mask_topk",
    "reducemin_shape",
    "sparse_weights",
    "split_to_sequence",
    "unsorted",
)


def read_case(name: str) -> tuple[list[InputSpec], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the inputs' specifications, the inputs and the outputs."""
    with np.load(CASES / f"{name}.npz") as arrays:
        read = [{key[len(r) :]: arrays[key] for key in arrays if key.startswith(r)} for r in ("in:", "out:")]
    fed, want = read
    return [InputSpec(key, value.shape) for key, value in fed.items()], fed, want


def lower_case(name: str, target: tvm.target.Target, *, simplified: bool) -> Lowered:
    path, specs = CASES / f"{name}.onnx", read_case(name)[0]
    if simplified:
        return lower(import_onnx(simplify(path, specs).model, name), target)
    model = load_model(path, name)
    fix_inputs(model, specs, name)
    return lower(import_model(model, name), target)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("simplified", [True, False])
@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, cpu: tvm.target.Target, *, simplified: bool) -> None:
    _, fed, want = read_case(name)
    lowered = lower_case(name, cpu, simplified=simplified)
    got = build_here(lowered, cpu)({info.name: fed[info.name] for info in lowered.inputs})
    assert compare(got, want, Tolerance()).problem is None
    assert lowered.notes == ()
