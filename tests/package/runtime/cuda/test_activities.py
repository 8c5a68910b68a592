"""The activities that a GPU reported, as the events and the graph of a profile."""

from __future__ import annotations

import pytest

from tvmbuild.package.profile import GraphTime
from tvmbuild.package.runtime.cuda.activities import COPY, Activity, list_events, name_function, summarize_graph


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("fused_conv2d1_add_kernel", "fused_conv2d1_add"),
        ("fused_conv2d1_add_kernel_1", "fused_conv2d1_add"),
        ("softmax_kernel_12", "softmax"),
        ("my_kernel_size_kernel", "my_kernel_size"),
        ("a_kernel_1_kernel_2", "a_kernel_1"),
        ("ampere_sgemm_128x64", "ampere_sgemm_128x64"),
        (COPY, "vm.copy"),
    ],
)
def test_a_kernel_is_its_functions(kernel: str, function: str) -> None:
    assert name_function(kernel) == function


def test_the_kernels_of_a_call_are_one_event_and_its_calls_stay_apart() -> None:
    run = [
        Activity("split_kernel_1", 400, 407, 9),  # CUPTI reports them in any order
        Activity("conv_kernel", 0, 10, 0),
        Activity("split_kernel", 100, 105, 9),
        Activity("split_kernel_1", 200, 201, 9),
        Activity("split_kernel", 300, 330, 9),
        Activity(COPY, 500, 503, 0),
        Activity("conv_kernel", 600, 680, 9),
    ]
    assert list_events(run) == [("conv", 10), ("split", 5 + 1), ("split", 30 + 7), (COPY, 3), ("conv", 80)]
    assert list_events([]) == []


def test_a_graph_is_as_long_as_from_its_first_node_to_its_last() -> None:
    def run(longer: int) -> list[Activity]:
        return [
            Activity("first_kernel", 0, 50_000, 0),
            Activity("b_kernel", 104_000, 106_000 + longer, 7),
            Activity("a_kernel", 100_000, 103_000, 7),
            Activity("other_kernel", 200_000, 201_000, 8),
        ]

    runs = [run(0), run(90_000), run(1000)]
    assert summarize_graph(runs) == GraphTime(kernels=3, sum_us=3 + 3 + 1, us=7 + 1)
    assert summarize_graph([[Activity("first_kernel", 0, 5, 0)]]) is None
    assert summarize_graph([]) is None


def test_a_kernel_that_was_launched_early_takes_no_time_before_its_turn() -> None:
    run = [Activity("a_kernel", 0, 10, 1), Activity("b_kernel", 4, 15, 1), Activity("c_kernel", 12, 14, 1)]
    assert list_events(run) == [("a", 10), ("b", 5), ("c", 0)]
    assert summarize_graph([run]) == GraphTime(kernels=3, sum_us=0.015, us=0.015)
