"""Constants are folded to the results of TVM's own pass; operators that it would have to compile are left to it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tvmbuild.compiler.passes.fold_constants import fold_constants

pytestmark = pytest.mark.compiler
WEIGHTS = np.arange(24, dtype="float32").reshape(2, 3, 4)


def build(computes: bool = False) -> tvm.ir.IRModule:
    """Return a function that moves constants, and also adds them with ``computes``."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            turned = builder.emit(relax.op.permute_dims(relax.const(WEIGHTS), [2, 0, 1]))
            back = builder.emit(relax.op.permute_dims(turned))
            row = builder.emit(relax.op.reshape(back, (1, 24)))
            column = builder.emit(relax.op.squeeze(relax.op.expand_dims(row, [0, 3]), [0, 1]))
            scalar = builder.emit(relax.op.reshape(relax.const(np.array([2.0], "float32")), ()))
            y = builder.emit(relax.op.multiply(relax.op.add(x, turned), scalar))
            if computes:
                column = builder.emit(relax.op.add(column, relax.const(np.float32(1))))
            out = builder.emit_output(relax.Tuple([y, column]))
        builder.emit_func_output(out)
    return builder.get()


def by_tvm(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    return relax.transform.CanonicalizeBindings()(relax.transform.FoldConstant()(mod))


def folded(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    passes = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
    return tvm.transform.Sequential(passes)(mod)


@pytest.mark.parametrize("computes", [False, True])
def test_the_module_is_the_one_that_tvm_makes(computes: bool) -> None:
    got, want = folded(fold_constants(build(computes))), folded(by_tvm(build(computes)))
    assert tvm_ffi.structural_equal(got, want, map_free_vars=True)


def test_moving_constants_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("TVM was asked")

    monkeypatch.setattr(relax.transform, "FoldConstant", fail)
    constants: list[np.ndarray] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            constants.append(expr.value.numpy())

    relax.analysis.post_order_visit(folded(fold_constants(build()))["main"], visit)
    wanted = (WEIGHTS.transpose(2, 0, 1), np.array(2, "float32"), WEIGHTS.transpose(2, 0, 1).T.reshape(24, 1))
    assert len(constants) == len(wanted)
    for value in wanted:
        assert any(value.shape == each.shape and np.array_equal(value, each) for each in constants)


def test_a_shape_that_is_not_known_is_left() -> None:
    builder = relax.BlockBuilder()
    size = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((size,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.reshape(relax.const(WEIGHTS), (size, 6)))
        builder.emit_func_output(out)
    mod = builder.get()
    assert "reshape" in str(fold_constants(mod))
