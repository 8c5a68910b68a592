"""The polynomials, compiled and compared with float64 references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.compiler

ULP = 2.0**-23


def run(function: str, *values: np.ndarray, lanes: int = 16, constants: tuple[float, ...] = ()) -> np.ndarray:
    """Compile a vectorised elementwise kernel for this machine's level and run it on arguments of the same length.

    Its last arguments are ``constants``.
    """
    import tvm
    from tvm import te, tirx

    from tvmbuild.compiler.codegen.fast_math import use_fast_math

    use_fast_math()
    count, dtype = len(values[0]), str(values[0].dtype)
    given = [te.placeholder((count,), dtype, name=f"x{place}") for place in range(len(values))]
    y = te.compute(
        (count,), lambda i: getattr(tirx, function)(*(x[i] for x in given), *map(tirx.const, constants)), name="y"
    )
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([*given, y])}))
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    if lanes > 1:
        _, inner = schedule.split(loop, [None, lanes])
        schedule.vectorize(inner)
    built: Any = tvm.compile(schedule.mod, target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}))
    result = tvm.runtime.empty((count,), dtype)
    built["main"](*map(tvm.runtime.tensor, values), result)
    array: np.ndarray = result.numpy()
    return array


def assembly_of(function: str, *constants: float) -> str:
    """Return the code that computes vectors of eight numbers; the function's last arguments are ``constants``."""
    import tvm
    from tvm import te, tirx

    from tvmbuild.compiler.codegen.fast_math import use_fast_math

    use_fast_math()
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: getattr(tirx, function)(x[i], *map(tirx.const, constants)), name="y")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y])}))
    schedule.vectorize(schedule.split(schedule.get_loops(schedule.get_sblock("y"))[0], [None, 8])[1])
    built: Any = tvm.compile(schedule.mod, target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}))
    text: str = (built.mod if hasattr(built, "mod") else built).inspect_source("asm")
    return text


INVERSES = {"log": np.log, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e30, -1e30, 1e-40]
SCALES = [1e-30, 1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 80.0]


def sigmoid(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-values))
    return result


def samples() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(-scale, scale, 4096) for scale in SCALES]).astype("float32")


@pytest.mark.parametrize(
    ("function", "reference", "ulps"),
    [
        ("exp", np.exp, 3),
        ("sigmoid", sigmoid, 5),
        ("tanh", np.tanh, 8),
        ("erf", np.vectorize(math.erf), 6),
        ("sin", np.sin, 2),
        ("cos", np.cos, 2),
    ],
)
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_polynomial_is_as_good_as_the_c_library(
    function: str, reference: Callable[[np.ndarray], np.ndarray], ulps: int, lanes: int
) -> None:
    values = samples()
    want = reference(values.astype("float64"))
    error = np.abs(run(function, values, lanes=lanes) - want) / np.maximum(np.abs(want), 1e-37)
    assert error.max() < ulps * ULP


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("function", INVERSES)
def test_an_inverse_is_as_good_as_the_c_library(function: str, lanes: int) -> None:
    random = np.random.default_rng(2)
    sizes = [np.exp(random.uniform(-103, end, 8192)) for end in (0, 88)]
    values = np.concatenate([random.uniform(-1, 1, 8192), *sizes, random.uniform(0.5, 2, 8192), SPECIAL])
    values = values.astype("float32")
    with np.errstate(invalid="ignore", divide="ignore"):
        want = INVERSES[function](values.astype("float64"))
    got, finite = run(function, values, lanes=lanes), np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
    assert np.array_equal(np.signbit(got[finite]), np.signbit(want[finite]))
    error = np.abs(got[finite] - want[finite]) / np.maximum(np.abs(want[finite]), 1.2e-38)
    assert error.max() < 2.5 * ULP


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_a_power_is_the_nearest_float(lanes: int) -> None:
    random = np.random.default_rng(3)
    special, exponents = map(np.ravel, np.meshgrid(SPECIAL, SPECIAL))
    bases = [np.exp(random.uniform(-80, 80, 16384)), random.uniform(-3, 3, 16384), special]
    x = np.concatenate(bases).astype("float32")
    y = np.concatenate([random.uniform(-3, 3, 16384), random.integers(-5, 6, 16384), exponents]).astype("float32")
    with np.errstate(all="ignore"):
        want = np.power(x.astype("float64"), y.astype("float64"))
        nearest = want.astype("float32")
    got, plain = run("pow", x, y, lanes=lanes), np.isfinite(nearest) & (np.abs(nearest) > 1.2e-38)
    assert np.array_equal(got[~plain], nearest[~plain], equal_nan=True)
    known = ~np.isnan(nearest)
    assert np.array_equal(np.signbit(got[known]), np.signbit(nearest[known]))
    assert np.abs(got[plain] / want[plain] - 1).max() < 0.51 * ULP


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0])
def test_a_short_power_is_as_good_as_the_c_library(exponent: float, lanes: int) -> None:
    random = np.random.default_rng(3)
    x = np.concatenate([np.exp(random.uniform(-20, 20, 4096)), random.uniform(-3, 3, 4096), SPECIAL]).astype("float32")
    with np.errstate(all="ignore"):
        want = np.power(x.astype("float64"), np.full(len(x), exponent)).astype("float32")  # a number would be a root
    got = run("pow", x, lanes=lanes, constants=(exponent,))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[known]), np.signbit(want[known]))
    np.testing.assert_allclose(got, want, rtol=2 * ULP, atol=1e-37)


def test_a_square_is_one_product() -> None:
    """LLVM makes a product of the C library's call, but not of polynomials, which took 20 times as long."""
    text = assembly_of("pow", 2.0)
    assert "vmulps" in text
    assert "vfmadd" not in text


@pytest.mark.parametrize("function", ["log", "asin", "acos", "atan"])
def test_vectors_of_inverses_stay_vectors(function: str) -> None:
    assert "vfmadd" in assembly_of(function)


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_turns_without_end_keep_their_digits(function: str, lanes: int) -> None:
    """The arguments are near the zeros, at the last one that needs no library, and beyond it."""
    random = np.random.default_rng(1)
    turns = np.arange(-4096, 4096) * (np.pi / 2)
    sizes = [random.uniform(-scale, scale, 4096) for scale in (1e2, 1e4, 1e5, 1 << 20)]
    ends = np.array([(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1e7, 1e20, 3e38, -3e38, 1e-40] * 2)
    values = np.concatenate([turns, *sizes, ends]).astype("float32")
    want = getattr(np, function)(values.astype("float64"))
    error = np.abs(run(function, values, lanes=lanes) - want) / np.maximum(np.abs(want), 1e-37)
    assert error.max() < 2 * ULP


@pytest.mark.parametrize("function", ["sin", "cos"])
def test_vectors_of_sine_stay_vectors(function: str) -> None:
    values = np.array([0, np.inf, -np.inf, np.nan, 1, 2, 3, 4] * 2, "float32")
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(run(function, values, lanes=8), getattr(np, function)(values), rtol=1e-6, atol=1e-7)
    assert "vfmadd231ps" in assembly_of(function) or "vfmadd213ps" in assembly_of(function)


def test_weights_of_a_softmax_are_as_good_as_float32_needs() -> None:
    import tvm
    from tvm import te

    from tvmbuild.compiler.codegen.fast_math import exp_of_negative

    values = -np.concatenate([np.linspace(0, 4, 4096), np.linspace(4, 87, 4096), [0, 88, 1e5, np.inf] * 4])
    values = values.astype("float32")
    x = te.placeholder(values.shape, name="x")
    y = te.compute(values.shape, lambda i: exp_of_negative(x[i] * 1.0), name="y")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y])}))
    _, inner = schedule.split(schedule.get_loops(schedule.get_sblock("y"))[0], [None, 8])
    schedule.vectorize(inner)
    built: Any = tvm.compile(schedule.mod, target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}))
    result = tvm.runtime.empty(values.shape)
    built["main"](tvm.runtime.tensor(values), result)
    got, want = result.numpy(), np.exp(values.astype("float64"))
    near = values >= -4
    np.testing.assert_allclose(got[near], want[near], rtol=4e-7)
    np.testing.assert_allclose(got, want, rtol=4e-6, atol=2e-38)
    assert got[0] == 1


def test_vectors_of_erf_stay_vectors() -> None:
    """LLVM would join the elements that TVM writes out only to short vectors of 256 bits."""
    import tvm
    from tvm import te, tirx

    from tvmbuild.compiler.codegen.fast_math import use_fast_math

    use_fast_math()
    x = te.placeholder((1024,), name="x")
    y = te.compute((1024,), lambda i: tirx.erf(x[i]), name="y")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y])}))
    _, inner = schedule.split(schedule.get_loops(schedule.get_sblock("y"))[0], [None, 16])
    schedule.vectorize(inner)
    built: Any = tvm.compile(schedule.mod, target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4"}))
    code = built.mod if hasattr(built, "mod") else built
    assembly = code.inspect_source("asm")
    assert any("vfmadd" in line and "zmm" in line for line in assembly.splitlines())
    assert not any("vfmadd" in line and "ymm" in line for line in assembly.splitlines())


def test_the_ends_of_the_range_infinities_and_nan() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, 88.7, 89.0, -87.3, -104.0] * 2, "float32")
    want = {
        "exp": [np.inf, 0, np.nan, 1, math.exp(88.7), np.inf, math.exp(-87.3), 0],
        "tanh": [1, -1, np.nan, 0, 1, 1, -1, -1],
        "sigmoid": [1, 0, np.nan, 0.5, 1, 1, 0, 0],
        "erf": [1, -1, np.nan, 0, 1, 1, -1, -1],
    }
    for function, expected in want.items():
        np.testing.assert_allclose(
            run(function, values, lanes=8), expected * 2, rtol=1e-5, atol=1e-37, err_msg=function
        )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float64", 1e-12)])
def test_tanh_of_other_floats_has_its_limits(dtype: str, tolerance: float) -> None:
    values = np.array([-400, -30, -6, -5.5, -1e-3, 0, 1e-3, 6, 30, 400, np.inf, -np.inf, np.nan, 1, -1, 2], dtype)
    np.testing.assert_allclose(run("tanh", values, lanes=1), np.tanh(values), rtol=tolerance, atol=1e-4)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("function", ["exp", "sigmoid", "tanh", "erf", "sin", "cos", *INVERSES])
def test_other_floats_stay_right(function: str, lanes: int) -> None:
    values = np.linspace(0.01, 0.99, 64) if function in INVERSES else np.linspace(-5, 5, 64)
    references: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "exp": np.exp,
        "sigmoid": sigmoid,
        "tanh": np.tanh,
        "erf": np.vectorize(math.erf),
        "sin": np.sin,
        "cos": np.cos,
        **INVERSES,
    }
    np.testing.assert_allclose(run(function, values, lanes=lanes), references[function](values), rtol=1e-12)


def test_a_built_kernel_calls_no_libm() -> None:
    import tvm
    from tvm import te, topi

    from tvmbuild.compiler.codegen.fast_math import use_fast_math

    use_fast_math()
    x = te.placeholder((4, 64), "float32", name="x")
    outputs = [topi.sigmoid(x), topi.tanh(x), topi.nn.softmax(x)]
    built: Any = tvm.compile(
        tvm.IRModule({"main": te.create_prim_func([x, *outputs])}), target=tvm.target.Target({"kind": "llvm"})
    )
    text = built.mod.inspect_source("ll") if hasattr(built, "mod") else built.inspect_source("ll")
    assert "llvm.exp" not in text
    assert "expf" not in text


@pytest.mark.parametrize(("level", "lanes"), [("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_sigmoid_divides_nothing(level: str, lanes: int) -> None:
    import tvm
    from tvm import te, tirx

    from tvmbuild.compiler.codegen.fast_math import use_fast_math

    use_fast_math()
    x = te.placeholder((256,), "float32", name="x")
    y = te.compute((256,), lambda i: x[i] * tirx.sigmoid(x[i]), name="y")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y])}))
    _, inner = schedule.split(schedule.get_loops(schedule.get_sblock("y"))[0], [None, lanes])
    schedule.vectorize(inner)
    built: Any = tvm.compile(schedule.mod, target=tvm.target.Target({"kind": "llvm", "mcpu": level}))
    text = built.mod.inspect_source("asm") if hasattr(built, "mod") else built.inspect_source("asm")
    assert "vfmadd" in text
    assert "vdiv" not in text
