from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tvm
from onnx import helper
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.passes.lift_constants import Lifted, lift_constants, params_bytes
from tvmbuild.compiler.pipeline import lower

SaveModel = Callable[..., Path]


def apply(path: Path, target: tvm.target.Target) -> tvm.ir.IRModule:
    return apply_records(lower(import_onnx(path), target), target, ms.database.MemoryDatabase()).mod


def run_lifted(lifted: Lifted, target: tvm.target.Target) -> np.ndarray:
    data = tvm.runtime.tensor(np.random.RandomState(0).uniform(-1, 1, (1, 3, 8, 8)).astype("float32"))
    machine = relax.VirtualMachine(build_executable(lifted.mod, target), tvm.cpu())
    params = tvm.runtime.load_param_dict(params_bytes(lifted.params))
    result: np.ndarray = machine["main"](
        data, *(params[name] for name in sorted(params) if name.startswith("p"))
    ).numpy()
    return result


def test_lifted_weights_give_the_same_bits(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    mod = apply(save_convnet(), cpu)
    lifted = lift_constants(mod)
    assert not lifted.embedded
    assert [value.numpy().nbytes for value in lifted.params] == [16 * 3 * 9 * 4, 32 * 16 * 9 * 4]
    assert int(lifted.mod["main"].attrs["num_input"]) == 1
    np.testing.assert_array_equal(run_lifted(lifted, cpu), run_lifted(Lifted(mod, ()), cpu))


def test_small_constants_stay_inside_and_shared_ones_are_lifted_once(
    save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    random = np.random.RandomState(0)
    weights = {
        "large": random.uniform(-1, 1, (8, 100)).astype("float32"),
        "back": random.uniform(-1, 1, (100, 8)).astype("float32"),
        "small": random.uniform(-1, 1, (8,)).astype("float32"),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "large"], ["a"]),
        helper.make_node("MatMul", ["a", "back"], ["b"]),
        helper.make_node("MatMul", ["b", "large"], ["c"]),
        helper.make_node("MatMul", ["c", "back"], ["d"]),
        helper.make_node("Add", ["d", "small"], ["y"]),
    ]
    lifted = lift_constants(apply(save_model(nodes, weights), cpu))
    assert [value.numpy().size for value in lifted.params] == [832, 800]  # packed for the schedules: 104 columns


def test_weights_do_not_reach_the_module(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    first = lift_constants(apply(save_convnet(), cpu))
    second = lift_constants(apply(save_convnet(seed=5, prefix="other/", name="b.onnx"), cpu))
    assert tvm.ir.save_json(first.mod) == tvm.ir.save_json(second.mod)
    assert params_bytes(first.params) != params_bytes(second.params)
