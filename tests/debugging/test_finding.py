"""A finding as JSON, as text and as a page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.specs import Tolerance
from tvmbuild.cli.debug.text import describe_finding, list_places
from tvmbuild.debugging.finding import IN_FLOAT32_THERE, Finding, PlaceError, Request, Suspect, TaskFacts, Tried
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.report.debug_page import write_debug_page

RIGHT = PlaceError("conv1", "Conv", "c<1>", 3e-7, 1e-7)
WRONG = PlaceError("relu1", "Relu", "r1", 0.25, 1e-7)
SUSPECT = Suspect(
    place=WRONG,
    nodes=("conv1", "relu1"),
    inputs=(RIGHT,),
    alone=0.5,
    fused=("Conv conv1",),
    range=(),
    tasks=(TaskFacts("0123456789abcdef", "conv2d_relu", recorded=True),),
    layout="NHWC",
    precision="fp32",
    tried=(
        Tried("by rule instead of its record", 0.5, fixes=True),
        Tried("without fusion", 1.0, fixes=True),
        Tried("LLVM -O0", 2.5e6, fixes=False),
        Tried("in NCHW", None, fixes=False),
    ),
    remedy="by rule instead of its record",
    reduced=2,
)
FINDING = Finding("net@cpu", 12, 9, "output y is wrong", "the largest error is 0.25", None, SUSPECT, (RIGHT, WRONG))
REQUEST = Request(
    "net@cpu", Path(), Path(), Path(), Path(), PackageTarget("cpu", "llvm"), Tolerance(), Path("build/debug/net@cpu")
)


def test_a_finding_is_the_same_after_json() -> None:
    assert Finding.from_json(json.loads(json.dumps(FINDING.to_json()))) == FINDING
    right = replace(FINDING, suspect=None)
    assert Finding.from_json(json.loads(json.dumps(right.to_json()))) == right


def test_the_text_names_the_place_the_record_and_what_mends_it() -> None:
    assert describe_finding(FINDING, replace(REQUEST, reduce=True)) == [
        "net@cpu: output y is wrong",
        "first wrong place: Relu relu1, output r1",
        "  its error: 0.25 of its largest value, 2.5e+06 times rounding",
        "  it reads c<1> of Conv conv1: 3e-07 of its largest value, 3 times rounding",
        "  alone, with the original's inputs: 0.5 times rounding",
        "  computed in one kernel with Conv conv1",
        "  Task conv2d_relu (0123456789abcdef): by its record, records/cpu/0123456789abcdef.json",
        "  layout NHWC, precision fp32",
        "fixes it: by rule instead of its record; the whole package passes with it",
        "  until it is fixed, delete records/cpu/0123456789abcdef.json",
        "  right at this place, too: without fusion",
        "  still wrong: LLVM -O0",
        "  cannot be built: in NCHW",
        "  found with 9 builds of 12 nodes or fewer",
        "  smallest model that fails, 2 nodes: build/debug/net@cpu/reduced.onnx, with its inputs in reduced.npz",
    ]


def test_what_stays_in_float32_is_told_as_a_line_of_yaml() -> None:
    alone = replace(SUSPECT, tried=(Tried(IN_FLOAT32_THERE, 0.5, fixes=True),), remedy=IN_FLOAT32_THERE)
    lines = describe_finding(replace(FINDING, suspect=alone), REQUEST)
    assert "  to build it so: `keep: [conv1, relu1]` of the model in models.yaml" in lines


def test_nodes_that_no_model_tells_apart_are_named_together() -> None:
    unknown = replace(SUSPECT, range=tuple(f"Loop l{number}" for number in range(9)))
    lines = describe_finding(replace(FINDING, suspect=unknown), REQUEST)
    told = "so it may also be Loop l0, Loop l1, Loop l2, Loop l3, Loop l4 and 4 more"
    assert f"  no model ends between it and the last right place, {told}" in lines


def test_what_nothing_mends_is_to_be_reported() -> None:
    alone = replace(SUSPECT, tried=SUSPECT.tried[2:], remedy=None)
    report = "  please report it: `--reduce` writes the smallest model that fails"
    assert report in describe_finding(replace(FINDING, suspect=alone), REQUEST)
    assert report not in describe_finding(replace(FINDING, suspect=alone), replace(REQUEST, reduce=True))


def test_inputs_that_are_not_finite_are_named_and_nothing_is_to_be_reported() -> None:
    alone = replace(FINDING, suspect=replace(SUSPECT, tried=SUSPECT.tried[2:], remedy=None), not_finite="NaN in x")
    remedy = "give finite inputs, because operators may treat other values unlike ONNX Runtime's"
    lines = describe_finding(alone, REQUEST)
    assert (lines[1], "no variant fixes it" in lines) == (f"  {remedy}", True)
    assert not any("report" in line or "at fault" in line for line in lines)
    right = replace(alone, problem=None, suspect=None, is_right=True)
    assert describe_finding(right, REQUEST)[1] == f"  NaN in x; {remedy}"


def test_a_task_is_by_the_rule_that_schedules_it() -> None:
    by_rule = replace(SUSPECT, tasks=(TaskFacts("0123456789abcdef", "conv2d", recorded=False, rule="cpu.convolution"),))
    lines = describe_finding(replace(FINDING, suspect=by_rule), REQUEST)
    assert "  Task conv2d (0123456789abcdef): by the rule cpu.convolution" in lines


def test_a_node_of_two_kernels_is_not_computed_in_one() -> None:
    two = replace(SUSPECT, tasks=SUSPECT.tasks * 2)
    assert "  its 2 kernels also compute Conv conv1" in describe_finding(replace(FINDING, suspect=two), REQUEST)


def test_wrong_frames_of_a_right_network_are_told() -> None:
    wrong = "net@cpu: the package prepares a frame wrongly (NV12 [480, 640], linear): row 3; see `frame`"
    framed = replace(FINDING, problem=None, suspect=None, is_right=True, frames=wrong, frames_are_wrong=True)
    assert describe_finding(framed, REQUEST) == [
        "net@cpu: the network is right: the largest error is 0.25",
        f"  {wrong}",
    ]
    assert Finding.from_json(json.loads(json.dumps(framed.to_json()))) == framed


def test_right_numbers_take_one_line() -> None:
    right = replace(FINDING, problem=None, suspect=None, is_right=True)
    assert describe_finding(right, REQUEST) == ["net@cpu: nothing is wrong: the largest error is 0.25"]


def test_a_place_below_the_tolerance_is_named_as_such() -> None:
    first, *_ = describe_finding(replace(FINDING, problem=None), REQUEST)
    assert first == "net@cpu: the gate passes, but the largest error is 0.25"


def test_a_right_package_is_told_from_a_wrong_compiler() -> None:
    again = "the largest error is 0.25"
    built = replace(FINDING, problem=None, closeness="the largest error is 3e-07", is_right=True, rebuilt=again)
    first, second, *_ = describe_finding(built, REQUEST)
    assert first == f"net@cpu: this package is right, but built again by this version it is wrong: {again}"
    assert second == "first wrong place: Relu relu1, output r1"


def test_a_package_that_only_another_version_builds_wrongly_is_not_called_right() -> None:
    other = replace(FINDING, problem=None, suspect=None, remark="built again, the package is right")
    assert describe_finding(other, REQUEST) == [
        "net@cpu: the gate passes, but the largest error is 0.25",
        "  built again, the package is right",
    ]


def test_the_table_has_a_row_for_each_place() -> None:
    head, *rows = list_places(FINDING.places)
    assert head.split() == ["error", "rounding", "ratio", "operator,", "place"]
    assert [row.split() for row in rows] == [
        ["3e-07", "1e-07", "3", "Conv", "c<1>"],
        ["0.25", "1e-07", "2.5e+06", "Relu", "r1"],
    ]


def test_the_page_marks_the_wrong_place_and_escapes_names() -> None:
    page = write_debug_page(FINDING, ["net@cpu: output y is wrong"])
    assert page.count('class="dot"') == 2
    assert "the first wrong place: Relu r1" in page
    assert "c&lt;1&gt;" in page
    assert "c<1>" not in page
    assert "<script" not in page
