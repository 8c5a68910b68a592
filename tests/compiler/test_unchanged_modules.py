"""A pass that changes nothing returns the very module, so that what comes after it need not look for a change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tvm
import tvm_ffi
from task_key_networks import NETWORKS
from tvm import relax

from tvmbuild.compiler.importing.importer import ImportedModel, import_model, import_onnx
from tvmbuild.compiler.ir.modules import keep_if_same, map_prim_funcs, replace_main
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_calls
from tvmbuild.compiler.pass_manager import PassRun, observe_passes
from tvmbuild.compiler.pipeline import lower

SaveModel = Callable[..., Path]
SHOWN = ["attention", "int8_moved", "transposed", "norm_in_operators"]


def list_copies(imported: ImportedModel, target: tvm.target.Target) -> list[str]:
    """Return which of our passes made another module of the same structure and the same names."""
    runs: list[PassRun] = []
    with observe_passes(runs.append):
        lower(imported, target)
    return [
        run.which.name
        for run in runs
        if not run.which.is_tvms
        and not run.before.same_as(run.after)
        and tvm_ffi.structural_equal(run.before, run.after, map_free_vars=True)
        and list_names(run.before) == list_names(run.after)
    ]


def list_names(mod: tvm.ir.IRModule) -> list[str]:
    return [binding.var.name for block in mod["main"].body.blocks for binding in block.bindings]


@pytest.mark.parametrize("target", ["cpu", "pi4", "gpu"])
@pytest.mark.parametrize("network", SHOWN)
def test_no_pass_copies_a_network(network: str, target: str, request: pytest.FixtureRequest) -> None:
    model = NETWORKS[network]()
    assert list_copies(import_model(model, network), request.getfixturevalue(target)) == []


def test_no_pass_copies_convolutions(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    imported = import_onnx(save_convnet())
    assert list_copies(imported, cpu) == []
    lowered = lower(imported, cpu)
    assert list_copies(ImportedModel(lowered.mod, lowered.inputs, lowered.outputs), cpu) == []


@pytest.fixture
def mod() -> tvm.ir.IRModule:
    return import_model(NETWORKS["attention"](), "net").mod


def test_a_rewrite_that_tidying_undoes_changes_nothing(mod: tvm.ir.IRModule) -> None:
    def emit(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        return builder.emit(call)  # one variable that is another

    assert not rewrite_calls(mod, emit).same_as(mod)
    assert rewrite_calls(mod, emit, TIDY).same_as(mod)


def test_a_module_with_another_function_is_another(mod: tvm.ir.IRModule) -> None:
    copy = replace_main(mod, mod["main"])
    assert not copy.same_as(mod)
    assert keep_if_same(mod, copy).same_as(mod)
    copy["more"] = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0))
    assert keep_if_same(mod, copy).same_as(copy)


def test_functions_that_stay_leave_the_module(mod: tvm.ir.IRModule) -> None:
    mod["one"] = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0))
    assert map_prim_funcs(mod, lambda function, _: function).same_as(mod)
    assert map_prim_funcs(mod, lambda *_: None).same_as(mod)
    assert not map_prim_funcs(mod, lambda function, _: function.with_attr("seen", 1)).same_as(mod)
