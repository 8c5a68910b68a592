"""The results about operators: counts and reasons of their cases, and the table that the site makes of them."""

from __future__ import annotations

from pathlib import Path

from node_cases import NodeCase, Verdict
from onnx import helper
from onnx_conformance import sum_up
from operator_results import read_results, write_results


def make_case(operator: str) -> NodeCase:
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "graph", [], [])
    return NodeCase(f"test_{operator.lower()}", helper.make_model(graph), (), (), 0, 0)


def test_operators_without_a_fault_are_a_list_and_the_others_have_rows(tmp_path: Path) -> None:
    refused = Verdict("refused", "the operator CumProd cannot be built: there is no code for it")
    skipped = Verdict("skipped", "the type bfloat16")
    right = Verdict("right")
    verdicts = {"a": (make_case("Abs"), right), "b": (make_case("CumProd"), refused)}
    verdicts |= {"c": (make_case("Acos"), right), "d": (make_case("Cast"), right), "e": (make_case("Cast"), skipped)}
    results = sum_up(verdicts)
    table = results.make_table()
    assert table.startswith("5 cases: 3 right, 0 right where all inputs are constants, 1 refused, 0 wrong,")
    assert "All cases of these operators are right: Abs, Acos.\n" in table
    assert table.splitlines()[-2:] == [
        "| Cast | 1 |  | the type bfloat16 |",
        "| CumProd |  | 1 | there is no code for it |",
    ]
    write_results(results, tmp_path / "cases.json")
    assert read_results(tmp_path / "cases.json").make_table() == table


def test_the_kept_results_are_those_of_all_operators() -> None:
    kept = read_results()
    assert len(kept.operators) > 150
    assert not [name for name, each in kept.operators.items() if {"wrong", "crashed"} & set(each.counts)]
