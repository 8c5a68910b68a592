"""`pad` of models.yaml: each type takes the numbers that it has, and refuses others in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from sized_nets import MODEL, make_project

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import Size, Sizes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.sizes import check_pad


def check(dtype: str, value: float) -> None:
    sizes = Sizes(FrozenMap({"m": ("T",)}), (Size(FrozenMap({"T": 4})),), FrozenMap({"m": value}))
    check_pad(sizes, [TensorInfo("ids", (4,), "int64"), TensorInfo("m", (4,), dtype)], "net")


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("bool", [0, 1]),
        ("uint8", [0, 255]),
        ("int8", [-128, 127]),
        ("int64", [-(2.0**63), 2.0**62]),
        ("float16", [-60000, 65519, 0.1, 1e-30]),
        ("bfloat16", [-60000, 3e38, 0.1]),
        ("float32", [-3.4028235e38, 0.1]),
        ("float64", [1e300]),
    ],
)
def test_a_type_takes_the_numbers_that_it_has(dtype: str, values: list[float]) -> None:
    for value in values:
        check(dtype, float(value))


@pytest.mark.parametrize(
    ("dtype", "value", "told", "remedy"),
    [
        ("bool", 0.5, "0.5", "0 or 1"),
        ("bool", 2, "2", "0 or 1"),
        ("uint8", 300, "300", "a whole number from 0 to 255"),
        ("uint8", -1, "-1", "a whole number from 0 to 255"),
        ("int32", 0.5, "0.5", "a whole number from -2147483648 to 2147483647"),
        ("int64", 1e30, "1e+30", "a whole number from -9223372036854775808 to 9223372036854775807"),
        ("int64", 2.0**63, "9.223372036854776e+18", "a whole number from -9223372036854775808 to 9223372036854775807"),
        ("float16", -65520, "-65520", "a number that fits float16"),
        ("bfloat16", 3.4e38, "3.4e+38", "a number that fits bfloat16"),
        ("float32", 1e39, "1e+39", "a number that fits float32"),
    ],
)
def test_a_number_that_a_type_does_not_have_is_refused(dtype: str, value: float, told: str, remedy: str) -> None:
    with pytest.raises(TvmbuildError) as refused:
        check(dtype, float(value))
    assert refused.value.message == f"net: `pad` fills m up with {told}, which {dtype} does not have"
    assert refused.value.hint == f"correct `pad: {{m: …}}` in models.yaml, under net: {remedy}"


@pytest.mark.compiler
def test_simplify_refuses_it(tmp_path: Path) -> None:
    done = make_project(tmp_path, MODEL.replace("pad: {mask: 0}", "pad: {mask: 0.5}")).run("simplify")
    assert done.returncode != 0
    assert "net: `pad` fills mask up with 0.5, which int64 does not have" in done.stdout + done.stderr
