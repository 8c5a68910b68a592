"""If a rule makes another schedule, its kind's `rules` must rise: otherwise it is never measured where records are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.targets.table import target_kind

pytestmark = pytest.mark.compiler

SEEN = {"llvm": (8, "60596897b22ed77f"), "cuda": (10, "39ab0b5b217a1a9b")}
"""The version of each kind, and a digest of the schedules that its rules make for the functions below.

A new digest needs a new version, except where TVM only prints the same schedules in another way.
"""
CPUS = ("x86-64-v3", "x86-64-v4")
LIMITS = {"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32}


def list_functions() -> list[Any]:
    """Return convolutions, products, a pooling, rows, a concatenation, a transpose and a maximum.

    One product has constant weights that come from memory.
    """
    from tvm import te, topi

    def tensor(*shape: int) -> Any:
        return te.placeholder(shape, name="x")

    def function(compute: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
        inputs = [tensor(*shape) for shape in shapes]
        return te.create_prim_func([*inputs, compute(*inputs)])

    return [
        function(lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, 1, 1), (1, 14, 14, 32), (3, 3, 32, 64)),
        function(lambda x, w: topi.nn.depthwise_conv2d_nhwc(x, w, 2, 1, 1), (1, 14, 14, 32), (3, 3, 32, 1)),
        function(topi.matmul, (197, 192), (192, 768)),
        function(topi.matmul, (64, 1024), (1024, 1024)).with_attr("layout_free_buffers", [1]),
        function(topi.nn.batch_matmul, (3, 50, 64), (3, 50, 64)),
        function(
            lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max", layout="NHWC"), (1, 14, 14, 32)
        ),
        function(topi.nn.softmax, (12, 197)),
        function(lambda x, y: topi.concatenate([x, y], axis=1), (4, 30), (4, 34)),
        function(lambda x: topi.transpose(x, (1, 0)), (96, 64)),
        function(lambda x: topi.max(x, 1), (64, 1000)),
    ]


def write_long_epilogue() -> Any:
    """Return a product with constant weights and a long epilogue."""
    from tvm import te, tirx, topi

    x, w = te.placeholder((197, 192), name="x"), te.placeholder((192, 768), name="w")
    product = topi.matmul(x, w)
    y = te.compute(product.shape, lambda *at: product[at] * (tirx.erf(product[at]) + 1.0))
    return te.create_prim_func([x, w, y]).with_attr("layout_free_buffers", [1])


def write_means() -> list[Any]:
    """Return the mean of each channel in NHWC, and the function that multiplies all pixels by a factor of the channel.

    The factor is a product, as in squeeze-and-excite.
    """
    from tvm import te, topi

    x, taken, w = (te.placeholder(shape, dtype="float16") for shape in ((1, 28, 28, 96), (1, 24), (24, 96)))
    factors = topi.reshape(topi.matmul(taken, w), (1, 1, 1, 96))
    return [
        te.create_prim_func([x, topi.sum(x, (1, 2))]),
        te.create_prim_func([x, taken, w, topi.multiply(x, factors)]),
    ]


def on_cpus() -> list[str]:
    import tvm

    from tvmbuild.compiler.machine.target import tvm_target
    from tvmbuild.compiler.schedules.cpu.rules import schedule_uncovered
    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes

    mod = tvm.IRModule({f"f{place}": each for place, each in enumerate([*list_functions(), write_long_epilogue()])})
    targets = [tvm_target("llvm", FrozenMap({"mcpu": cpu, "num-cores": 2}), FrozenMap()) for cpu in CPUS]
    return [run_tir_passes(schedule_uncovered(mod, target), target).script() for target in targets]


def on_a_card() -> list[str]:
    from matrix_products import write_product
    from window_sums import BUSY, Layout, sum_windows

    from tvmbuild.base.attributes import Precision
    from tvmbuild.compiler.machine.target import tvm_target
    from tvmbuild.compiler.schedules.gpu.rules import list_schedules

    host = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"})
    target = tvm_target("cuda", FrozenMap({"arch": "sm_90", **LIMITS}), host)
    products = [write_product(*shapes, "half")["main"] for shapes in (((197, 192), (192, 768)), ((6, 512), (512, 6)))]
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    rows = [sum_windows("Conv", BUSY, layout=layout, **window)["main"] for layout in ("NCHW", "NHWC")]
    kinds: tuple[tuple[Layout, Precision], ...] = (("NCHW", "fp32"), ("NHWC", "fp16"))
    matrices = [
        sum_windows("Conv", (2, 64, 28), layout=layout, precision=precision, group=1, **window)["main"]
        for layout, precision in kinds
    ]
    functions = [*list_functions(), *products, *rows, *matrices, *write_means()]
    return [list_schedules(each, target, 1)[0].mod.script() for each in functions]


@pytest.mark.parametrize(("kind", "schedule"), [("llvm", on_cpus), ("cuda", on_a_card)])
def test_other_schedules_have_another_version(kind: str, schedule: Callable[[], list[str]]) -> None:
    scripts = schedule()
    digest = hashlib.sha256("\n".join(scripts).encode()).hexdigest()[:16]
    assert (target_kind(kind).rules, digest) == SEEN[kind]


def test_both_kinds_of_cards_have_the_same_rules() -> None:
    assert target_kind("cuda").rules == target_kind("vulkan").rules
