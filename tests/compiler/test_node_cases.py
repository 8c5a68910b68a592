"""onnx's own cases for the results of every operator."""

from __future__ import annotations

import os
import re
import signal

import pytest
from nights import share
from node_cases import NodeCase, Verdict, list_cases, run_case
from node_processes import run_apart

NIGHTS = 3
PARTS = 4
RIGHT = (
    "and2d",
    "attention_4d_causal_nonpad_negative_offset_structural_empty",
    "attention_4d_diff_heads_mask4d_padded_kv",
    "bitshift_left_int32_shift_ge_width",
    "bitshift_right_int8_negative_shift",
    "causal_conv_with_state_with_past_state",
    "celu",
    "convtranspose_output_shape",
    "cosh",
    "cumsum_2d_axis_1",
    "deform_conv_with_multiple_offset_groups",
    "dropout_default_mask",
    "gru_seq_length",
    "isinf_negative",
    "isinf_positive",
    "layer_normalization_3d_axis1_epsilon",
    "linear_attention_gated_delta",
    "lstm_bidirectional",
    "lstm_with_peepholes",
    "maxpool_with_argmax_2d_precomputed_strides",
    "maxunpool_export_without_output_shape",
    "mod_float_edge_cases_fmod_0_float32",
    "nonmaxsuppression_suppress_by_IOU_and_scores",
    "nonmaxsuppression_two_batches",
    "nonzero_example",
    "pow_types_float32_uint64",
    "pow_types_int64_int64",
    "reduce_l2_empty_set",
    "reduce_max_bool_inputs",
    "reduce_max_empty_set",
    "reduce_min_keepdims_random",
    "resize_downsample_scales_cubic_antialias",
    "resize_downsample_scales_linear",
    "resize_upsample_scales_linear_half_pixel_symmetric",
    "rms_normalization_3d_axis0_epsilon",
    "roialign_mode_max",
    "rotary_embedding",
    "scan9_sum",
    "scatter_elements_with_reduction_min",
    "sce_mean",
    "simple_rnn_reverse",
    "sinh",
    "spacetodepth_crd_mode_example",
    "swiglu",
    "top_k_smallest",
    "training_dropout_zero_ratio_mask",
    "unique_not_sorted_without_axis",
)
REFUSED = {
    "batchnorm_example_training_mode": "BatchNormalization .* computes statistics of its batch",
    "maxunpool_export_with_output_shape": "MaxUnpool .* `output_shape` is not supported",
    "training_dropout": "Dropout .* drops values at random",
    "adam": "the operator Adam .*: it is of training",
}


@pytest.fixture(scope="module")
def cases() -> dict[str, NodeCase]:
    return {case.name.removeprefix("test_"): case for case in list_cases()}


@pytest.mark.parametrize("name", RIGHT)
def test_right(cases: dict[str, NodeCase], name: str) -> None:
    assert run_case(cases[name]).kind == "right"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_words(cases: dict[str, NodeCase], name: str) -> None:
    verdict = run_case(cases[name])
    assert verdict.kind in {"refused", "folded"}
    assert re.search(REFUSED[name], verdict.reason), verdict.reason


def test_a_crash_and_an_endless_case_are_verdicts(cases: dict[str, NodeCase]) -> None:
    def crash(_case: NodeCase) -> Verdict:
        os.kill(os.getpid(), signal.SIGKILL)
        return Verdict("right")

    def hang(_case: NodeCase) -> Verdict:
        signal.pause()
        return Verdict("right")

    assert run_apart(cases["abs"], crash) == Verdict("crashed", "signal 9")
    assert run_apart(cases["abs"], hang, timeout_s=0.3) == Verdict("crashed", "no end in 0.3 s")


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_no_case_is_wrong(cases: dict[str, NodeCase], part: int) -> None:
    verdicts = {name: run_case(case) for name, case in share(cases.items(), NIGHTS)[part::PARTS]}
    assert {name: each for name, each in verdicts.items() if each.kind in {"wrong", "crashed"}} == {}
    assert sum(each.kind == "right" for each in verdicts.values()) > len(verdicts) / 2
