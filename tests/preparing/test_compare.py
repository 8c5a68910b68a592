from __future__ import annotations

import math

import numpy as np
import pytest

from tvmbuild.base.specs import Tolerance
from tvmbuild.preparing.compare import compare, find_error
from tvmbuild.preparing.reference import Reference

WANT = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)


def test_equal_outputs() -> None:
    result = compare({"y": WANT}, {"y": WANT.copy()}, Tolerance(0, 0))
    assert (result.max_abs_error, result.max_rel_error, result.problem) == (0.0, 0.0, None)


def test_within_and_beyond_the_tolerance() -> None:
    got = WANT.copy()
    got[1, 0] += 0.03
    assert compare({"y": got}, {"y": WANT}, Tolerance(rtol=0.01, atol=0.001)).problem is None
    result = compare({"y": got}, {"y": WANT}, Tolerance(rtol=0.001, atol=0.001))
    assert result.max_abs_error == pytest.approx(0.03, rel=1e-4)
    assert result.max_rel_error == pytest.approx(0.01, rel=1e-4)
    assert result.problem is not None
    assert "output y is wrong in 1 of 4 elements, most at [1, 0]: got 3.03, want 3, off by 0.03" in result.problem


def test_a_share_of_the_largest_magnitude_is_allowed_everywhere() -> None:
    want = np.array([-100.0, 0.0, np.inf], np.float32)
    got = np.array([-100.0, 1.9, np.inf], np.float32)
    assert compare({"y": got}, {"y": want}, Tolerance(1e-9, 0, 0.02)).problem is None
    result = compare({"y": got}, {"y": want}, Tolerance(1e-9, 0, 0.01))
    assert result.problem is not None
    assert "off by 1.9 where 1 is allowed" in result.problem


def test_nan_and_infinity_match_only_themselves() -> None:
    want = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert compare({"y": want}, {"y": want.copy()}, Tolerance()).problem is None
    for index, wrong in ((0, 1.0), (1, -np.inf), (2, np.nan), (3, np.nan), (3, np.inf)):
        got = want.copy()
        got[index] = wrong
        problem = compare({"y": got}, {"y": want}, Tolerance()).problem
        assert problem is not None, (index, wrong)
        assert f"most at [{index}]" in problem
        assert "off by" not in problem


def test_a_fault_names_the_inputs_that_are_not_finite() -> None:
    inputs = {"x": np.array([1, np.nan, np.inf], np.float32), "n": np.array([1])}
    reference = Reference(inputs, {"y": np.array([np.inf])})
    assert reference.compare({"y": np.array([np.inf])}, Tolerance()).problem is None
    problem = reference.compare({"y": np.array([1.0])}, Tolerance()).problem
    first = "NaN or infinity in 2 of 3 elements of the input x, and output y is wrong in 1 of 1 elements, most at [0]"
    assert problem == f"{first}: got 1, want inf"
    assert Reference({"x": WANT}, {}).not_finite is None


@pytest.mark.parametrize("kind", ["uint8", "int64", "bool"])
def test_integers_are_the_same_unless_more_is_allowed(kind: str) -> None:
    want = np.array([1, 0] if kind == "bool" else [100, 120], kind)
    got = np.roll(want, 1) if kind == "bool" else want + np.array([0, 1], kind)
    assert compare({"y": want}, {"y": want.copy()}, Tolerance()).problem is None
    for exact in (Tolerance(), Tolerance(rtol=1e-3, atol=1e-4)):
        problem = compare({"y": got}, {"y": want}, exact).problem
        assert problem is not None
        assert "where 0 is allowed" in problem
    for wide in (Tolerance(atol=1), Tolerance().at_least("int8"), Tolerance(of_largest=1)):
        assert (compare({"y": got}, {"y": want}, wide).problem is None) == (
            kind != "bool" or wide.of_largest != 5 / 255
        )


def test_large_integers_have_no_share_of_their_size() -> None:
    want, got = np.array([80_000]), np.array([80_001])
    assert compare({"y": got}, {"y": want}, Tolerance()).problem is not None
    assert compare({"y": got}, {"y": want}, Tolerance().at_least("fp16")).problem is None


def test_names_and_shapes() -> None:
    assert compare({"z": WANT}, {"y": WANT}, Tolerance()).problem == "the outputs are z instead of y"
    problem = compare({"y": WANT[0]}, {"y": WANT}, Tolerance()).problem
    assert problem == "output y has the shape [2] instead of [2, 2]"


def test_equal_numbers_of_another_dtype_are_a_failure() -> None:
    for wrong in (np.float64, np.float16, np.int32):
        problem = compare({"x": WANT, "y": WANT.astype(wrong)}, {"x": WANT, "y": WANT}, Tolerance()).problem
        assert problem == f"output y has the dtype {np.dtype(wrong)} instead of float32"
    empty = np.zeros((0, 3), dtype=np.int64)
    problem = compare({"y": empty.astype(np.int32)}, {"y": empty}, Tolerance()).problem
    assert problem == "output y has the dtype int32 instead of int64"


def test_integers_booleans_and_scalars() -> None:
    assert compare({"y": np.array(3)}, {"y": np.array(4)}, Tolerance(0, 0)).problem is not None
    assert compare({"y": np.array([True])}, {"y": np.array([False])}, Tolerance(0, 0)).problem is not None
    assert compare({"y": np.array(4)}, {"y": np.array(4)}, Tolerance(0, 0)).problem is None
    assert compare({"y": np.zeros((0, 3))}, {"y": np.zeros((0, 3))}, Tolerance()).problem is None


def test_a_difference_is_relative_and_nan_is_the_largest() -> None:
    want = np.array([1.0, -4.0])
    assert find_error({"y": want}, {"y": want}) == 0
    assert find_error({"y": np.array([1.0, -3.0])}, {"y": want}) == 0.25
    assert find_error({"y": np.array([1.0, np.nan])}, {"y": want}) == math.inf
    assert find_error({"y": np.array([1.0])}, {"y": want}) == math.inf
