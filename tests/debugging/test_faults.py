"""Thirty faults in the real compiler: `debug` names the operator, and the variant that fixes it.

The networks are drawn from the fault's number, so no two are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from debug_nets import NETS
from planted_faults import (
    Fault,
    by_record,
    extra_pass,
    in_float16,
    is_fused,
    is_optimised,
    on_calls,
    on_functions,
    scale_by,
    scale_stores,
    turn_weights,
    with_record,
    with_winograd,
    wrong_attribute,
    wrong_constant,
    wrong_exp,
    wrong_inputs,
    wrong_pass,
    wrong_result,
)
from rpc_boards import board, tracker
from tvm import relax, tirx

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.specs import Tolerance
from tvmbuild.compiler import apply, pipeline
from tvmbuild.compiler.ir.prim_funcs import allows_tf32
from tvmbuild.compiler.kernels.attention.cpu.kernel import write_attention
from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.schedules.cpu import tir_passes
from tvmbuild.debugging.builds import Bench, Build
from tvmbuild.debugging.examine import examine
from tvmbuild.debugging.finding import IN_FLOAT32_THERE, Finding
from tvmbuild.debugging.inquiry import Case, Wish
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.device import Device
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.devices.model_worker import Load, Worker
from tvmbuild.devices.table import open_device, parse_device
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import Reference, run_onnx
from tvmbuild.targets.vulkan_families import FAMILIES

TARGET = PackageTarget("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 1}))


def _shift(_call: object, result: relax.Expr) -> relax.Expr:
    """Take each row from the one before it: a bound that is off by one."""
    last = len(result.ty.shape) - 1
    size = int(result.ty.shape[last])
    indices = relax.const(np.array([size - 1, *range(size - 1)]), "int64")
    return relax.op.take(result, indices, axis=last, mode="clip")


def _attend_wrongly(attention: Attention, machine: Machine) -> tirx.PrimFunc | None:
    return write_attention(replace(attention, scale=attention.scale * 1.1), machine)


def _scale(constant: relax.Expr, factor: float) -> relax.Expr:
    return relax.const(constant.value.numpy() * np.float32(factor), "float32")


FAULTS = (
    Fault("softmax over another axis", "classifier", lambda: wrong_attribute("Softmax", axis=0), ("probabilities",)),
    Fault("a forgotten bias", "classifier", lambda: wrong_attribute("Gemm", beta=0.0), ("logits",)),
    Fault("a wrong slope", "classifier", lambda: wrong_attribute("LeakyRelu", alpha=0.25), ("leaky",)),
    Fault("a wrong slope, slightly", "detector", lambda: wrong_attribute("LeakyRelu", alpha=0.101), ("first_leaky",)),
    Fault("parts in another order", "detector", lambda: wrong_result("Concat", _shift), ("joined",)),
    Fault("another padding", "detector", lambda: wrong_attribute("Pad", mode=b"edge"), ("padded",)),
    Fault(
        "the padding counted", "detector", lambda: wrong_attribute("AveragePool", count_include_pad=1), ("averaged",)
    ),
    Fault("off by one row", "detector", lambda: wrong_result("Slice", _shift), ("sliced",)),
    Fault("other places of pixels", "detector", lambda: wrong_attribute("Resize", mode=b"nearest"), ("large",)),
    Fault(
        "operands exchanged",
        "detector",
        lambda: wrong_inputs("Div", lambda two: two[::-1]),
        ("share",),
    ),
    Fault("another epsilon", "transformer", lambda: wrong_attribute("LayerNormalization", epsilon=0.1), ("b0_norm",)),
    Fault("softmax of other numbers", "transformer", lambda: wrong_attribute("LogSoftmax", axis=0), ("scores",)),
    Fault(
        "the gates in another order",
        "recurrent",
        lambda: wrong_attribute("GRU", linear_before_reset=1),
        ("states",),
    ),
    Fault(
        "weights turned by a pass",
        "classifier",
        lambda: extra_pass(pipeline, "OPERATORS", on_calls("nn.conv2d", turn_weights, outputs=24)),
        ("wide",),
        "without the pass Planted",
    ),
    Fault(
        "a sum in float16",
        "transformer",
        lambda: extra_pass(pipeline, "OPERATORS", on_calls("matmul", in_float16, outputs=64)),
        ("b0_hidden",),
        "without the pass Planted",
    ),
    Fault(
        "attention with another scale",
        "transformer",
        lambda: patch.object(pipeline, "write_attention", _attend_wrongly),
        ("b0_mixed", "b0_weights", "b0_scores", "b0_whole", "b0_back"),
        "without the pass FuseAttention",
    ),
    Fault(
        "a normalisation fused wrongly",
        "transformer",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "LegalizeOps", on_functions("layer_norm", scale_stores(1.001))),
        ("b0_norm",),
    ),
    Fault(
        "a window that is too short",
        "classifier",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "LegalizeOps", on_functions("max_pool2d", scale_stores(0.9))),
        ("pooled",),
    ),
    Fault(
        "a driver's exp",
        "detector",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "LegalizeOps", on_functions("exp", wrong_exp)),
        ("powers",),
    ),
    Fault(
        "a driver's sigmoid",
        "recurrent",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "LegalizeOps", on_functions("sigmoid", scale_stores(1.0001))),
        ("answer",),
    ),
    Fault(
        "a code generator that optimises wrongly",
        "classifier",
        lambda: extra_pass(tir_passes, "TIR_PASSES", on_functions("sigmoid", scale_stores(1.01), is_optimised)),
        ("small_act",),
        "LLVM -O0",
    ),
    Fault(
        "a rule's schedule",
        "classifier",
        lambda: wrong_pass(apply, "SCHEDULED", "ScheduleByRuleOnCpu", on_functions("matmul", scale_stores(1.01))),
        ("logits",),
        "by plain loops instead of records and rules",
    ),
    Fault(
        "a record's schedule",
        "classifier",
        lambda: wrong_pass(
            apply, "RECORDED", "MetaScheduleApplyDatabase", on_functions("conv2d", scale_stores(1.02), by_record)
        ),
        ("plain0", "first"),
        "by rule instead of its record",
        schedule=with_record("conv2d"),
    ),
    Fault(
        "operators fused wrongly",
        "detector",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "FuseTIR", on_functions("tanh", scale_stores(1.01), is_fused)),
        ("small", "small_tanh"),
        "without fusion",
    ),
    Fault(
        "a layout converted wrongly",
        "classifier",
        lambda: wrong_pass(pipeline, "LAYOUT", "ConvertLayout", on_calls("nn.conv2d", scale_by(1.01), outputs=24)),
        ("wide",),
        "in NCHW",
    ),
    Fault(
        "Winograd's constants",
        "classifier",
        lambda: wrong_pass(pipeline, "PRODUCTS", "ApplyWinograd", on_functions("winograd", wrong_constant(8.0, 7.9))),
        ("plain0", "first", "wide"),
        "without Winograd",
        schedule=with_winograd,
    ),
    Fault(
        "too large for float16",
        "large",
        nullcontext,
        ("wide",),
        "in float32",
        precision="fp16",
    ),
    Fault(
        "a scale of int8",
        "quantised",
        lambda: wrong_inputs("DequantizeLinear", lambda given: [given[0], _scale(given[1], 1.1), *given[2:]]),
        ("x8_dq",),
        precision="int8",
    ),
    Fault(
        "a kernel of int8",
        "quantised",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "LegalizeOps", on_functions("sigmoid", scale_stores(1.05))),
        ("answer",),
        precision="int8",
    ),
    Fault("a forgotten flip", "detector", lambda: wrong_result("ConvTranspose", _shift), ("up",)),
)


RIGHT = ("classifier", "transformer", "detector", "recurrent", "quantised")
"""The networks that their faults do not make wrong."""


def find(fault: Fault, folder: Path, *, seed: int, target: PackageTarget = TARGET, device: Device = LOCAL) -> Finding:
    """Plant the fault and examine the network."""
    model = NETS[fault.net](seed)
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    inputs = {"x": np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")}
    target = replace(target, precision=fault.precision)
    original = "int8" if fault.precision == "int8" else "fp32"
    reference = Reference(inputs, run_onnx(model.SerializeToString(), inputs, "net"), original)
    build = Build(target, fault.schedule(model, target))
    with fault.plant(), progress_shown_by(lambda _: None):
        return examine(Case("net@v3", model, None, build, Bench(device, 1), reference, Tolerance()), Wish(folder))


BY_KERNEL = ("a record's schedule",)
"""The faults for which the last node of the kernel is named, with the others of the kernel beside it."""


@pytest.mark.sampled(1)
@pytest.mark.compiler
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[f"{fault.net}: {fault.what}" for fault in FAULTS])
def test_the_operator_is_named_and_the_variant_that_mends_it(
    number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Record a row of the results, for `--junitxml`."""
    fault = FAULTS[number]
    found = find(fault, tmp_path, seed=number).suspect
    assert found is not None
    kernel = {found.place.node, *(each.split()[1] for each in found.fused)}
    named = kernel if fault.what in BY_KERNEL else {found.place.node}
    assert not named.isdisjoint(fault.nodes), (found.place, kernel)
    fixing = [each.variant for each in found.tried if each.fixes]
    row = (fault.what, fault.net, f"{found.place.operator} `{found.place.node}`", fault.fixes or "none")
    record_property("row", f"| {' | '.join(row)} |")
    if fault.fixes is None:
        assert fixing == []
    else:
        assert fault.fixes in fixing, found.tried
        assert found.remedy in fixing, "the whole package is right with the remedy"


@pytest.mark.sampled(1)
@pytest.mark.compiler
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("net", RIGHT)
def test_no_place_of_a_right_package_is_named(net: str, seed: int, tmp_path: Path) -> None:
    fault = Fault("none", net, nullcontext, (), precision="int8" if net == "quantised" else "fp32")
    found = find(fault, tmp_path, seed=seed)
    assert (found.problem, found.suspect) == (None, None)


@pytest.mark.compiler
def test_a_product_that_tensor_cores_ruin_is_fixed_in_float32_there(tmp_path: Path) -> None:
    """In tf32 a kept product is exact, so that it has no mark of the functions that tensor cores compute."""
    rounds = on_functions("matmul", scale_stores(1.5), lambda function, _: allows_tf32(function))
    fault = Fault(
        "tensor cores", "classifier", lambda: extra_pass(pipeline, "RECORDS", rounds), ("logits",), precision="tf32"
    )
    found = find(fault, tmp_path, seed=1).suspect
    assert found is not None
    assert found.place.node == "logits"
    fixing = [each.variant for each in found.tried if each.fixes]
    assert IN_FLOAT32_THERE in fixing


@pytest.mark.compiler
@pytest.mark.vulkan
@pytest.mark.nightly
def test_where_this_cpu_is_right_the_driver_is_at_fault(tmp_path: Path) -> None:
    damage = on_functions("exp", wrong_exp, lambda _, lowering: is_gpu(lowering.target))
    fault = Fault(
        "a driver's exp",
        "detector",
        lambda: wrong_pass(pipeline, "TENSOR_IR", "LegalizeOps", damage),
        ("powers",),
        "on this CPU",
    )
    lavapipe = PackageTarget("soft", "vulkan", FrozenMap(sorted(FAMILIES["lavapipe"].items())), TARGET.attributes)
    found = find(fault, tmp_path, seed=1, target=lavapipe).suspect
    assert found is not None
    assert found.place.node == "powers"
    assert found.remedy == "on this CPU"


@pytest.mark.compiler
@pytest.mark.nightly
def test_the_operator_is_named_on_a_board(tmp_path: Path) -> None:
    fault = next(each for each in FAULTS if each.what == "a driver's sigmoid")
    with tracker(tmp_path) as address, board(address, "debugged", tmp_path):
        device = open_device(parse_device({"rpc": {"tracker": address, "key": "debugged"}}))
        found = find(fault, tmp_path, seed=1, device=device).suspect
    assert found is not None
    assert found.place.node in fault.nodes


@pytest.mark.compiler
def test_a_board_that_goes_away_is_no_wrong_place(tmp_path: Path) -> None:
    def lose(load: Load) -> AbstractContextManager[Worker]:
        lost.append(load)
        if len(lost) > 2:
            raise DeviceLostError("the board was lost")
        return LOCAL.start(load)

    lost: list[Load] = []
    fault = next(each for each in FAULTS if each.what == "a driver's sigmoid")
    with pytest.raises(DeviceLostError):
        find(fault, tmp_path, seed=1, device=replace(LOCAL, start=lose))
