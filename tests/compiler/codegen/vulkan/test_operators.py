"""onnx's own cases on lavapipe: those that once failed, and every night a quarter of all."""

from __future__ import annotations

import pytest
from nights import share
from node_cases import NodeCase, list_cases, run_case

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
NIGHTS = 4
PARTS = 6
RIGHT = {
    "cumsum_1d_exclusive": "scratch memory that TVM declares outside the kernel",
    "cumsum_2d_axis_1": "loops with dynamic extents",
    "mod_float_edge_cases_fmod_0_float16": "remainders of infinities and zeros",
    "mod_float_edge_cases_fmod_0_float32": "remainders of infinities and zeros",
    "reduce_sum_empty_set_non_reduced_axis_zero": "nothing to compute",
    "rotary_embedding": "a part of size 0 beside others",
    "acosh": "functions that Vulkan does not have",
    "bitshift_right_uint64": "64-bit integers without signs",
    "max_float64": "numbers in double precision",
    "softmax_large_number": "exponentials beyond the largest number",
    "top_k": "sorting",
    "einsum_inner_prod": "a sum that is one element",
    "sce_mean_no_weight_ii_log_prob": "a sum whose output has no dimensions",
}
"""The cases that once failed, and their difficulty."""


@pytest.fixture(scope="module")
def cases() -> dict[str, NodeCase]:
    return {case.name.removeprefix("test_"): case for case in list_cases()}


@pytest.mark.parametrize("name", RIGHT)
def test_right(cases: dict[str, NodeCase], name: str) -> None:
    verdict = run_case(cases[name], "vulkan")
    assert verdict.kind in {"right", "folded"}, verdict


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_case_is_wrong(cases: dict[str, NodeCase], part: int) -> None:
    verdicts = {name: run_case(case, "vulkan") for name, case in share(cases.items(), NIGHTS)[part::PARTS]}
    assert {name: each for name, each in verdicts.items() if each.kind in {"wrong", "crashed"}} == {}
    assert sum(each.kind == "right" for each in verdicts.values()) > len(verdicts) / 2
