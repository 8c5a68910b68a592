"""The sets name operators that TVM has, and do not contradict each other."""

from __future__ import annotations

import pytest
import tvm

from tvmbuild.compiler.ir import op_sets

SETS = {name: value for name, value in vars(op_sets).items() if name.isupper()}


@pytest.mark.parametrize("name", SETS)
def test_tvm_has_each_operator(name: str) -> None:
    for operator in SETS[name]:
        assert tvm.ir.Op.get(operator).name == operator


def test_what_is_exact_is_not_discontinuous() -> None:
    assert not op_sets.EXACT & op_sets.DISCONTINUOUS
    assert not op_sets.IN_16_BITS & op_sets.BOUNDED
