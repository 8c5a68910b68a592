"""A quantised network for ARM is computed here without instructions at which LLVM would end the process."""

from __future__ import annotations

import numpy as np
import pytest
from quantised_graphs import Network, run_optimized

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Tolerance
from tvmbuild.benchmarking.validation import lower_model, validate
from tvmbuild.building.package import build_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import Reference

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("cpu", ["cortex-a76", "neoverse-n2"])
def test_a_quantised_model_of_another_machine(cpu: str) -> None:
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((16, 8, 1, 1))
    first = net.round(net.add("Conv", [net.round("x", 0.02, 131), weights, net.offset(16, scales, 0.02)]), 0.1, 120)
    model = net.finish(net.round(net.add("Sigmoid", [first]), 1 / 255, 0), (1, 8, 9, 9))
    target = PackageTarget(cpu, "llvm", FrozenMap({"mcpu": cpu, "mtriple": "aarch64-linux-gnu", "num-cores": 2}))
    inputs = {"x": np.random.RandomState(1).uniform(-3, 3, (1, 8, 9, 9)).astype(np.float32)}
    reference = Reference(inputs, run_optimized(model, inputs))
    assert validate(lower_model(model, target), reference, Tolerance()).max_abs_error < 1e-6
    operators = build_package(model, target).info.operators
    assert operators is not None
    assert any("conv2d" in operator.name for operator in operators)
