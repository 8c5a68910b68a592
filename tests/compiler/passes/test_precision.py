from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantFormat
from quantized_nets import quantize_net, write_float_net
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_flags
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import ModelSpec
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.codegen.link import LinkOptions, export_library
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.halves import LONGEST_SUM
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.compare import compare

SaveModel = Callable[..., Path]
X86: Attributes = FrozenMap({"mcpu": "sapphirerapids", "mtriple": "x86_64-linux-gnu", "num-cores": 2})


def convert(path: Path, precision: Precision = "fp16", kind: str = "llvm") -> tvm.ir.IRModule:
    return reduce_precision(import_onnx(path), precision, kind).mod


def operators(mod: tvm.ir.IRModule) -> Counter[str]:
    """Count the operators of ``main`` by name and result type: `nn.conv2d float16`."""
    found: Counter[str] = Counter()

    def visit(expr: Any) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            found[f"{expr.op.name.removeprefix('relax.')} {getattr(expr.ty, 'dtype', 'tuple')}"] += 1

    relax.analysis.post_order_visit(mod["main"], visit)
    return found


def types_of(mod: tvm.ir.IRModule) -> tuple[str, str]:
    return str(mod["main"].params[0].ty.dtype), str(mod["main"].ret_ty.dtype)


def test_fp32_is_the_module_as_it_was(save_convnet: SaveModel) -> None:
    imported = import_onnx(save_convnet())
    assert reduce_precision(imported, "fp32", "llvm") is imported


def test_integers_are_of_models_that_are_quantised(save_convnet: SaveModel, tmp_path: Path) -> None:
    message = (
        "^net is not quantised, and its target has `precision: int8`\n  hint: add `quantize:` to net in models.yaml, "
    )
    with pytest.raises(TvmbuildError) as caught:
        reduce_precision(import_onnx(save_convnet(), "net"), "int8", "llvm", "net")
    assert re.match(message, str(caught.value))
    for form in QuantFormat:
        path = quantize_net(write_float_net(tmp_path / "net.onnx"), tmp_path / "quantised.onnx", quant_format=form)
        imported = import_onnx(path)
        assert reduce_precision(imported, "int8", "llvm") is imported


def test_what_lies_between_products_is_narrow_and_the_ends_are_not(save_convnet: SaveModel) -> None:
    mod = convert(save_convnet())
    assert types_of(mod) == ("float32", "float32")
    assert operators(mod) == {
        "astype float16": 2,
        "nn.conv2d float16": 1,
        "nn.conv2d float32": 1,
        "maximum float16": 1,
        "minimum float16": 1,
        "astype float32": 1,
    }
    assert relax.analysis.check_well_formed(mod)


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_gpus_add_up_in_float32(save_convnet: SaveModel, precision: Precision, dtype: str) -> None:
    found = operators(convert(save_convnet(), precision, "cuda"))
    assert (found["nn.conv2d float32"], found[f"maximum {dtype}"], found[f"astype {dtype}"]) == (2, 1, 3)


def test_a_cpu_adds_up_long_sums_in_float32(save_model: SaveModel) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    for length, dtype in ((LONGEST_SUM, "float16"), (LONGEST_SUM + 1, "float32")):
        weights = {"w": np.ones((length, 4), np.float32)}
        path = save_model([node], weights, shape=(1, length))
        found = operators(convert(path))
        assert (found[f"matmul {dtype}"], found["astype float16"]) == (1, 1 + (dtype == "float32"))
        assert operators(convert(path, kind="cuda"))["matmul float32"] == 1


def test_products_of_integers_stay_what_they_are(save_model: SaveModel) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT8),
        helper.make_node("MatMulInteger", ["i", "w"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save_model(nodes, {"w": np.ones((8, 4), np.int8)}, shape=(1, 8))
    found = operators(convert(path))
    assert found["matmul int32"] == 1
    assert not [name for name in found if name.endswith("float16")]


def test_numbers_that_16_bits_cannot_hold_keep_their_operator_wide(save_model: SaveModel) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "mask"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    weights = {"w": np.ones((8, 4), np.float32), "mask": np.array([0, -1e30, 0, 0], np.float32)}
    found = operators(convert(save_model(nodes, weights, shape=(1, 8))))
    assert (found["matmul float16"], found["add float32"], found["nn.softmax float32"]) == (1, 1, 1)
    assert operators(convert(save_model(nodes, weights, shape=(1, 8)), "bf16", "cuda"))["add bfloat16"] == 1


def test_bounded_functions_are_computed_wide_and_kept_narrow(save_model: SaveModel) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["b"]),
        helper.make_node("Split", ["b"], ["p", "q"], axis=1, num_outputs=2),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    path = save_model(nodes, {"w": np.ones((8, 4), np.float32)}, shape=(1, 8), opset=18)
    found = operators(convert(path))
    assert (found["sigmoid float32"], found["multiply float16"], found["add float16"]) == (1, 1, 1)


def test_exponentials_are_wide_and_a_note_counts_what_reads_16_bits(save_model: SaveModel) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["before"]),  # nothing is narrow yet
        helper.make_node("MatMul", ["before", "w"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    path = save_model(nodes, {"w": np.ones((8, 4), np.float32)}, shape=(1, 8))
    reduced = reduce_precision(import_onnx(path), "fp16", "llvm")
    found = operators(reduced.mod)
    assert (found["matmul float16"], found["exp float32"]) == (1, 2)
    assert reduced.notes == ("operators that read numbers of fp16 and stay in float32: 1 add, 1 exp",)
    lowered = lower(reduced, tvm_target("llvm", X86, FrozenMap()))
    assert lowered.notes == reduced.notes


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions_are_narrow(save_model: SaveModel, rank: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2] * rank)
    path = save_model([node], {"w": np.ones((4, 2, *[3] * rank), np.float32)}, shape=(1, 4, *[5] * rank))
    reduced = reduce_precision(import_onnx(path), "fp16", "cuda")
    found = operators(reduced.mod)
    assert (found[f"nn.conv{rank}d_transpose float32"], found["astype float16"], reduced.notes) == (1, 2, ())


@pytest.mark.compiler
def test_a_cpu_computes_with_float16_vectors(save_convnet: SaveModel, tmp_path: Path) -> None:
    path, target = save_convnet(), tvm_target("llvm", X86, FrozenMap())
    imported = reduce_precision(import_onnx(path), "fp16", "llvm")
    lowered = lower(imported, target)
    assert (lowered.layout, lowered.notes) == ("NHWC", ())
    executable = build_executable(apply_records(lowered, target, ms.database.MemoryDatabase()).mod, target)
    library = tmp_path / "mod.so"
    library.write_bytes(export_library(executable, target, LinkOptions()))
    code = next(m for m in [executable.mod, *executable.mod.imports] if m.kind == "llvm").inspect_source("asm")
    assert re.search(r"vfmadd\d+ph\s.*zmm", code)
    assert not re.search(r"vfmadd\d+ps|(call|jmp)\w*\s+__(extend|trunc)", code)
    if not cpu_flags() >= {"avx512_fp16", "avx512vl", "avx512bw"}:
        pytest.skip("this CPU has no arithmetic of float16")
    x = np.random.RandomState(0).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(x)).numpy()
    (want,) = onnxruntime.InferenceSession(onnx.load(path).SerializeToString()).run(None, {"x": x})
    tolerance = ModelSpec("net", Source("path", "net.onnx")).tolerance_in("fp16")
    found = compare({"y": got}, {"y": want}, tolerance)
    assert found.problem is None
    assert found.max_abs_error > 1e-5, "that is not what fp16 gives"


def test_what_reads_the_indices_of_a_kept_operator_is_narrow(save_model: SaveModel) -> None:
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["best", "places"], "top"),
        helper.make_node("GatherElements", ["x", "places"], ["found"], axis=1),
        helper.make_node("MatMul", ["found", "w"], ["product"]),
        helper.make_node("Add", ["product", "best"], ["y"]),
    ]
    path = save_model(nodes, {"w": np.ones((4, 4), np.float32), "k": np.array([4], np.int64)}, shape=(1, 8))
    for keep in ((), ("top",)):
        found = operators(reduce_precision(import_onnx(path, keep=keep), "fp16", "llvm").mod)
        assert found["matmul float16"] == 1
