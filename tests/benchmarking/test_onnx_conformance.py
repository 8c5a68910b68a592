"""The table of operators names each operator once, with the reasons of the cases that are not right."""

from __future__ import annotations

import re
from pathlib import Path

from node_cases import NodeCase, Verdict
from onnx import helper
from onnx_conformance import BEGIN, END, make_table


def make_case(operator: str) -> NodeCase:
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "graph", [], [])
    return NodeCase(f"test_{operator.lower()}", helper.make_model(graph), (), (), 0, 0)


def test_operators_without_a_fault_are_a_list_and_the_others_have_rows() -> None:
    refused = Verdict("refused", "the operator CumProd cannot be built: there is no code for it")
    skipped = Verdict("skipped", "the type bfloat16")
    right = Verdict("right")
    verdicts = {"a": (make_case("Abs"), right), "b": (make_case("CumProd"), refused)}
    verdicts |= {"c": (make_case("Acos"), right), "d": (make_case("Cast"), right), "e": (make_case("Cast"), skipped)}
    table = make_table(verdicts)
    assert "All cases of these operators are right: Abs, Acos.\n" in table
    assert table.splitlines()[-2:] == [
        "| Cast | 1 |  | the type bfloat16 |",
        "| CumProd |  | 1 | there is no code for it |",
    ]


def test_the_page_names_each_operator_once(project_root: Path) -> None:
    page = (project_root / "docs/reference/operators.md").read_text(encoding="utf-8")
    part = page.partition(BEGIN)[2].partition(END)[0]
    listed = re.findall(r"operators are right: ([^.]*)\.", part)[0].replace("\n", " ").split(", ")
    rows = re.findall(r"^\| (\w+) \|", part, re.MULTILINE)
    names = [*listed, *(row for row in rows if row != "operator")]
    assert len(names) == len(set(names)) > 150
