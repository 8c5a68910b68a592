"""The values that fill inputs up to a size: C++ writes the bits that Python writes, in each type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cpp_programs import program_of_sizes, run_program
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import Size, Sizes
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.building.sizes import Varying, join_packages
from tvmbuild.package.archive import Package, write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.padding import pad_inputs
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler

DTYPES = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}
VALUES = [
    0.0,
    -60000.0,
    0.1,
    -0.30005,
    1 + 2.0**-11,
    1 + 3 * 2.0**-11,
    1 + 2.0**-8 + 2.0**-30,
    65519.0,
    6.2e-5,
    9e-8,
    1e-9,
    3.0e38,
]
"""Values between two numbers of 16 bits, halfway between them, that are subnormal, and that are too large."""


def build(dtype: str) -> Package:
    """Return a package of the sizes T=2 and T=4 whose result is the last number of its input: x [1, T] → y [1, 1]."""
    letters = {"x": (1, "T")}
    sizes = Sizes(FrozenMap(letters), tuple(Size(FrozenMap({"T": length})) for length in (2, 4)))
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 2}))
    packages = []
    for size in sizes.choices:
        graph = helper.make_graph(
            [helper.make_node("Gather", ["x", "last"], ["z"], axis=1), helper.make_node("Cast", ["z"], ["y"], to=1)],
            "net",
            [helper.make_tensor_value_info("x", DTYPES[dtype][0], [1, size.values["T"]])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
            [numpy_helper.from_array(np.array([size.values["T"] - 1]), "last")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        packages.append((size, build_package(model.SerializeToString(), target, options=BuildOptions("net"))))
    return join_packages(packages, Varying(sizes, FrozenMap({"y": (1, 1)}), ("T",)))


@pytest.mark.toolchain
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_cpp_pads_numbers_of_16_bits_as_python_does(dtype: str, tmp_path: Path) -> None:
    package, path = build(dtype), tmp_path / "net.tar"
    assert package.info.sizes is not None
    x = np.ones((1, 3), DTYPES[dtype][1])
    (tmp_path / "0-0.in").write_bytes(x.tobytes())
    for value in VALUES:
        sizes = replace(package.info.sizes, pad=FrozenMap({"x": value}))
        write_package(path, replace(package, info=replace(package.info, sizes=sizes)))
        want = pad_inputs({"x": x}, {"x": (1, 4)}, {"x": value})["x"][0, -1].astype(np.float32)
        done = run_program(program_of_sizes(), path, tmp_path, "1x3")
        assert done.returncode == 0, done.stderr
        assert np.fromfile(tmp_path / "0-0.out", np.float32) == want, value
        if dtype == "float16":  # NumPy hands no array of bfloat16 to a session
            with Session(path) as session:
                assert session.run({"x": x})["y"] == want
