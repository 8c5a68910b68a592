"""The definitions and the uses of a graph's variables."""

from __future__ import annotations

import pytest
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import DefUse, find_origin, resolve

KIND = relax.TensorType((2, 3), "float32")
X = relax.Var("x", KIND)
EXP, ALIAS, SUM, OUT = (relax.DataflowVar(name, KIND) for name in ("exp", "alias", "sum", "out"))
BINDINGS = [
    relax.VarBinding(EXP, relax.op.exp(X)),
    relax.VarBinding(ALIAS, EXP),
    relax.VarBinding(SUM, relax.op.add(ALIAS, ALIAS)),
    relax.VarBinding(OUT, relax.op.multiply(SUM, X)),
]


@pytest.fixture
def graph() -> DefUse:
    block = relax.BindingBlock(BINDINGS)
    return DefUse(relax.Function([X], relax.SeqExpr([block], relax.Tuple([OUT, SUM])), relax.TupleType([KIND, KIND])))


def test_a_variable_is_followed_to_its_value_or_to_the_first_of_its_names(graph: DefUse) -> None:
    assert is_call(resolve(graph.lookup, ALIAS), "relax.exp")
    assert find_origin(graph.lookup, ALIAS).same_as(EXP)
    assert resolve(graph.lookup, X).same_as(X)
    assert find_origin(graph.lookup, X).same_as(X)
    call = relax.op.abs(X)
    assert resolve(graph.lookup, call).same_as(call)


def test_values_and_users_are_in_program_order(graph: DefUse) -> None:
    assert list(graph.values) == [EXP, ALIAS, SUM, OUT]
    assert graph.users == {X: [EXP, OUT], EXP: [ALIAS], ALIAS: [SUM], SUM: [OUT]}
    assert dict(graph.uses) == {X: 2, EXP: 1, ALIAS: 1, SUM: 2, OUT: 1}


def test_a_value_is_found_where_nothing_else_uses_it(graph: DefUse) -> None:
    assert graph.find(ALIAS, "exp") is not None
    assert graph.find(ALIAS, "add") is None
    assert graph.find(SUM, "add") is None
    assert graph.find(SUM, "add", uses=2) is not None
    assert graph.used(X) is None


def test_what_is_returned_is_not_used_by_bindings_alone(graph: DefUse) -> None:
    assert graph.is_only_used_by(ALIAS, {SUM})
    assert graph.is_only_used_by(X, {EXP, OUT})
    assert not graph.is_only_used_by(X, {EXP})
    assert not graph.is_only_used_by(SUM, {OUT})


def test_variables_are_listed_in_the_order_of_the_arguments() -> None:
    """By where they lie in memory would be another order in each process, and other Tasks."""
    variables = [relax.Var(f"v{number}", KIND) for number in range(9)]
    for ordered in (variables[::2] + variables[1::2], variables[::-1]):
        call = relax.op.concat(relax.Tuple(ordered), 0)
        assert [each.name for each in relax.analysis.all_vars(call)] == [each.name for each in ordered]
