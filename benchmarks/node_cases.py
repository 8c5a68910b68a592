"""The node cases of onnx's own test suite, taken through import, lowering, rules, and code for a CPU or Vulkan.

A case is one operator with random inputs and the outputs of onnx's reference. If inputs decide about shapes and the
model leaves them open, the case cannot be compiled; a case refused with all inputs free is therefore tried again with
all inputs except the first as constants, then with all as constants.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.targets.vulkan_families import FAMILIES

Kind = Literal["right", "folded", "wrong", "refused", "crashed", "skipped"]
"""The verdicts; ``folded`` is refused, except for a model whose operator has only constant inputs."""
Form = Literal["inputs", "parameters", "constants"]
CPU: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
TargetKind = Literal["llvm", "vulkan"]
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_FORMS: tuple[Form, ...] = ("inputs", "parameters", "constants")
_KINDS_OF_NUMBERS = "fiub"
_SMALL_FLOATS = 2
_EPSILONS = 8
"""The number of the type's epsilons by which two ways of computing may differ."""


@dataclass(frozen=True)
class NodeCase:
    """One case: a model, its input arrays in order, and the expected outputs."""

    name: str
    model: onnx.ModelProto
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """The operator of the case; an expanded case belongs to the operator in its name."""
        return str(self.model.graph.node[0].op_type) if len(self.model.graph.node) == 1 else "(several)"


@dataclass(frozen=True)
class Verdict:
    """The result of a case; ``form`` is the decisive one."""

    kind: Kind
    reason: str = ""
    form: Form = "inputs"


def list_cases() -> list[NodeCase]:
    """Return onnx's node cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415 - seconds

        cases = collect_testcases(None)
    return sorted(map(_read_case, cases), key=lambda case: case.name)


def _read_case(case: Any) -> NodeCase:
    inputs, outputs = case.data_sets[0]
    return NodeCase(case.name, case.model, _arrays(inputs), _arrays(outputs), case.rtol, case.atol)


def _arrays(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each for each in values)


def why_skipped(case: NodeCase) -> str | None:
    """Return why the case is outside tvmbuild's scope; None if it is within."""
    operators = {node.op_type for node in case.model.graph.node}
    if operators & RANDOM:
        return "draws random numbers"
    values = [*case.model.graph.input, *case.model.graph.output]
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return "sequences, optional values"
    for value in values:
        kind = value.type.tensor_type.elem_type
        if kind == onnx.TensorProto.STRING:
            return "strings"
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if dtype.kind not in _KINDS_OF_NUMBERS or (dtype.kind == "f" and dtype.itemsize < _SMALL_FLOATS):
            return f"the type {onnx.TensorProto.DataType.Name(kind).lower()}"
    return None


def run_case(case: NodeCase, kind: TargetKind = "llvm") -> Verdict:
    """Build and run the case in this process, in one form after another until one is not refused."""
    skipped = why_skipped(case)
    if skipped is not None:
        return Verdict("skipped", skipped)
    first: Verdict | None = None
    for form in _FORMS if case.inputs else _FORMS[:1]:
        if form == "parameters" and len(case.inputs) == 1:
            continue
        verdict = _run_form(case, form, kind)
        if form == "constants":
            break  # nothing was left to compile: onnxsim's result says nothing about tvmbuild
        if verdict.kind != "refused":
            return verdict
        first = first or verdict
    if first is None:
        return verdict
    return Verdict("folded", first.reason, "constants") if verdict.kind == "right" else first


def _run_form(case: NodeCase, form: Form, kind: TargetKind) -> Verdict:
    try:
        got = _compute(case, form, kind)
    except TvmbuildError as error:
        return Verdict("refused", " ".join(error.message.split()), form)
    except Exception as error:  # noqa: BLE001 - a crash is a verdict
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Verdict("crashed", f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300], form)
    problem = _find_problem(case, got)
    return Verdict("wrong", problem, form) if problem else Verdict("right", form=form)


def _find_problem(case: NodeCase, got: Sequence[np.ndarray]) -> str | None:
    if len(got) != len(case.outputs):
        return f"{len(got)} outputs instead of {len(case.outputs)}"
    for index, (have, want) in enumerate(zip(got, map(np.asarray, case.outputs), strict=True)):
        if have.shape != want.shape:
            return f"output {index} has the shape {list(have.shape)} instead of {list(want.shape)}"
        if have.dtype != want.dtype:
            return f"output {index} has the dtype {have.dtype} instead of {want.dtype}"
        wide = np.float64 if want.dtype.kind not in "iub" else want.dtype
        rtol = max(case.rtol, _EPSILONS * float(np.finfo(want.dtype).eps)) if want.dtype.kind == "f" else case.rtol
        if not np.allclose(have.astype(wide), want.astype(wide), rtol, max(case.atol, rtol / 10), equal_nan=True):
            return f"output {index} has other numbers"
    return None


def _compute(case: NodeCase, form: Form, kind: TargetKind) -> list[np.ndarray]:
    from tvmbuild.compiler.evaluate import build_here  # noqa: PLC0415 - children are forked from who has it, or has not
    from tvmbuild.compiler.importing.importer import import_model  # noqa: PLC0415
    from tvmbuild.compiler.machine.target import is_gpu, tvm_target  # noqa: PLC0415
    from tvmbuild.compiler.pipeline import lower  # noqa: PLC0415

    attributes = CPU if kind == "llvm" else FrozenMap(sorted(FAMILIES["lavapipe"].items()))
    target = tvm_target(kind, attributes, CPU)
    imported = import_model(_prepare(case, form), case.name, for_gpu=is_gpu(target))
    lowered = lower(imported, target)
    fed = dict(zip((value.name for value in case.model.graph.input), map(np.asarray, case.inputs), strict=False))
    return list(build_here(lowered, target)(fed).values())


def _prepare(case: NodeCase, form: Form) -> onnx.ModelProto:
    """Return the model with static shapes, with constants as the form says, simplified if onnxsim can."""
    import onnxsim  # noqa: PLC0415

    from tvmbuild.preparing.onnx_graph import set_output_shapes  # noqa: PLC0415

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = {"inputs": len(case.inputs), "parameters": 1, "constants": 0}[form]
    values = list(model.graph.input)
    for value, array in zip(values, case.inputs, strict=False):
        _set_shape(value, np.asarray(array).shape)
    for value, array in list(zip(values, case.inputs, strict=False))[kept:]:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
        model.graph.input.remove(value)
    names = [value.name for value in model.graph.output]
    set_output_shapes(model, dict(zip(names, map(np.asarray, case.outputs), strict=True)))
    try:
        simplified, _ = onnxsim.simplify(model, check_n=0)
    except Exception:  # noqa: BLE001 - as the simplify stage does: the original goes on
        return model
    return cast("onnx.ModelProto", simplified)


def _set_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    dims = value.type.tensor_type.shape
    dims.SetInParent()
    del dims.dim[:]
    for size in shape:
        dims.dim.add().dim_value = size
