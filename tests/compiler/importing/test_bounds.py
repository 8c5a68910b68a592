"""Values whose length depends on data: chains of operators give what ONNX Runtime gives, whatever is found."""

from __future__ import annotations

import numpy as np
import pytest
from counted_graphs import PRODUCERS, ROWS, WAYS, Graph, chain, check, feeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("way", WAYS)
def test_a_way_behind_a_mask(way: str) -> None:
    check(chain("mask", [way]), feeds(1))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_producer(producer: str) -> None:
    check(chain(producer, []), feeds(2))


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(PRODUCERS)), st.lists(st.sampled_from(sorted(WAYS)), min_size=2, max_size=4), st.integers(0, 99))
def test_drawn_chains(producer: str, ways: list[str], seed: int) -> None:
    check(chain(producer, ways), feeds(seed))
