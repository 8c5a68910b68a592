"""Attention as one kernel for GPUs: sizes, CUDA's compiler, and on lavapipe ONNX Runtime's numbers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from cuda_sources import write_source
from drawn_attention import draw_attention
from vulkan_devices import HOST
from vulkan_kernels import explain_invalid, generate, lavapipe

from tvmbuild.base.attributes import Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.codegen.generators import use_generators
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.kernels.attention.form import Attention, Buffer, Operand
from tvmbuild.compiler.kernels.attention.gpu.function import write_attention
from tvmbuild.compiler.kernels.attention.gpu.sizes import THREADS, choose_sizes
from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.gpu.rules import schedule_rest

FIRST = int(os.environ.get("DRAWN_ATTENTION_FIRST", "100"))
LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
EXAMPLES = int(os.environ.get("DRAWN_ATTENTION", "8"))


def make_form(heads: int, rows: int, keys: int, size: int, dtype: str = "float32") -> Attention:
    """Return attention with its heads side by side in each row."""
    width = heads * size
    source = Operand(0, 0, (size,), width, 1)
    return Attention(
        inputs=tuple(Buffer((tokens, width), dtype) for tokens in (rows, keys, keys)),
        heads=(heads,),
        rows=rows,
        keys=keys,
        depth=size,
        width=size,
        query=source,
        key=Operand(1, 0, (size,), width, 1),
        value=Operand(2, 0, (size,), width, 1),
        masks=(),
        scale=size**-0.5,
        nan_is_zero=False,
        rows_after=0,
        dtype=dtype,
    )


def as_module(form: Attention, target: tvm.target.Target) -> tvm.IRModule:
    function = write_attention(form, target)
    assert function is not None
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


@pytest.mark.parametrize("size", [8, 32, 40, 64, 72, 80, 128])
@pytest.mark.parametrize("rows", [1, 2, 7, 197, 1000])
@pytest.mark.parametrize("shared", [16384, 49152])
def test_sizes_fit_the_target(size: int, rows: int, shared: int) -> None:
    for keys in (1, 13, 197, 4096):
        sizes = choose_sizes(make_form(6, rows, keys, size), GpuLimits(THREADS, shared))
        assert sizes is not None
        assert sizes.shared_bytes <= shared
        assert sizes.rows % sizes.row_threads == sizes.rows % sizes.group == sizes.keys % sizes.key_threads == 0
        assert sizes.row_threads * sizes.key_threads <= THREADS
        assert sizes.parts * sizes.row_groups * sizes.column_threads <= THREADS
        assert sizes.rows < 2 * rows or sizes.rows == 8


def test_heads_too_wide_for_a_block_are_left_to_separate_operators() -> None:
    assert choose_sizes(make_form(1, 9, 9, 1024), GpuLimits(THREADS, 16384)) is None


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("rows", "keys", "size"), [(197, 197, 64), (1, 513, 72)])
def test_the_kernel_compiles_for_cards(rows: int, keys: int, size: int, dtype: str) -> None:
    for arch in ("sm_75", "sm_90"):
        target = tvm_target("cuda", FrozenMap({"arch": arch, **LIMITS}), HOST)
        source = write_source(as_module(make_form(3, rows, keys, size, dtype), target), target)
        assert cuda.compile_source(source, target)


def check_compiles(seed: int) -> None:
    """Draw an attention and compile the rules' kernels of it for a card."""
    target = tvm_target("cuda", FrozenMap({"arch": "sm_90", **LIMITS}), HOST)
    precision: Precision = "fp16" if seed % 2 else "fp32"
    mod = lower(
        reduce_precision(import_model(draw_attention(seed, most=90).model, "drawn"), precision, "cuda"), target
    ).mod
    names = [variable.name_hint for variable in mod.get_global_vars()]
    assert "attention" in names
    for name in names:
        if name.startswith("attention"):
            source = write_source(tvm.IRModule({"main": mod[name].with_attr("global_symbol", "main")}), target)
            assert cuda.compile_source(source, target)


@pytest.mark.sampled(4)
@pytest.mark.compiler
@pytest.mark.parametrize("seed", range(12))
def test_drawn_attention_compiles_for_cards(seed: int) -> None:
    check_compiles(seed)


@pytest.mark.compiler
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(FIRST, FIRST + EXAMPLES))
def test_more_drawn_attention_compiles_for_cards(seed: int) -> None:
    check_compiles(seed)


def attend(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return attention of [heads, tokens, size] in double precision."""
    query, key, value = (each.astype(np.float64) for each in (query, key, value))
    scores = query @ key.transpose(0, 2, 1) * query.shape[-1] ** -0.5
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ value)


@pytest.mark.compiler
@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("rows", "keys", "size", "dtype"),
    [(37, 53, 64, "float32"), (1, 130, 40, "float32"), (2, 7, 72, "float32"), (19, 19, 32, "float16")],
)
def test_the_kernel_is_valid_and_right(rows: int, keys: int, size: int, dtype: str, tmp_path: Path) -> None:
    mod, heads = as_module(make_form(2, rows, keys, size, dtype), lavapipe()), 2
    if shutil.which("spirv-val"):
        assert not explain_invalid(generate(mod)[0], tmp_path)
    random = np.random.default_rng(rows)
    inputs = [random.uniform(-2, 2, (tokens, heads * size)).astype(dtype) for tokens in (rows, keys, keys)]
    with use_generators(lavapipe()):
        function = tvm.tirx.build(mod, lavapipe())["main"]
    device = tvm.device("vulkan", 0)
    tensors = [tvm.runtime.tensor(each, device) for each in (*inputs, np.full((rows, heads, size), np.nan, dtype))]
    function(*tensors)
    want = attend(*(each.reshape(-1, heads, size).transpose(1, 0, 2) for each in inputs))
    error = 1e-5 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(tensors[-1].numpy(), want.transpose(1, 0, 2), rtol=error, atol=error)


@pytest.mark.compiler
@pytest.mark.vulkan
@pytest.mark.parametrize("seed", range(4))
def test_drawn_attention(seed: int) -> None:
    check(seed, 50)


@pytest.mark.vulkan
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(FIRST, FIRST + EXAMPLES))
def test_more_drawn_attention(seed: int) -> None:
    check(seed, 150)


def check(seed: int, most: int) -> None:
    drawn, target = draw_attention(seed, most=most), lavapipe()
    precision: Precision = "fp16" if seed % 5 == 4 else "fp32"
    lowered = lower(reduce_precision(import_model(drawn.model, "drawn"), precision, "vulkan"), target)
    names = [variable.name_hint for variable in lowered.mod.get_global_vars()]
    assert "attention" in names
    assert not any("softmax" in name or "matmul" in name or "tanh" in name for name in names), names
    with use_generators(target):
        built = tvm.relax.build(schedule_rest(lowered.mod, target), target)
    machine = tvm.relax.VirtualMachine(built, tvm.device("vulkan", 0))
    inputs = [tvm.runtime.tensor(drawn.inputs[each.name], tvm.device("vulkan", 0)) for each in lowered.inputs]
    got = machine["main"](*inputs)
    got = got if hasattr(got, "numpy") else got[0]
    session = onnxruntime.InferenceSession(drawn.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, drawn.inputs)
    error = 1e-2 if precision == "fp16" else 3e-5
    np.testing.assert_allclose(got.numpy(), want, rtol=error, atol=error)
