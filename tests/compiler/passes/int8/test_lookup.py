"""Bytes looked up in a table of 256, in each way that this CPU has, and the code of other CPUs."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.kernels.int8.lookup import LOOKUPS, Lookup, choose_lookup, find_lookup, write_lookup
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import host_target, tvm_target

pytestmark = pytest.mark.compiler
HERE = {str(name) for name in tvm.target.codegen.llvm_get_cpu_features(host_target(threads=2))}
WAYS = [pytest.param(each, id=str(each.lanes)) for each in LOOKUPS if each.features <= HERE]
if not WAYS:
    WAYS = [pytest.param(None, id="none", marks=pytest.mark.skip(reason="this CPU has no such instruction"))]


@pytest.mark.parametrize("lookup", WAYS)
@pytest.mark.parametrize(
    ("shape", "types"),
    [
        ((64,), ("uint8", "uint8")),
        ((1, 3, 3, 29), ("uint8", "int8")),
        ((1, 400, 400, 1), ("uint8", "uint8")),
        ((2, 65), ("int8", "int8")),
    ],
)
def test_each_byte_is_looked_up(lookup: Lookup, shape: tuple[int, ...], types: tuple[str, str]) -> None:
    target = host_target(threads=2)
    function = write_lookup(shape, types, lookup, describe_machine(target)).with_attr("global_symbol", "main")
    library = tvm.compile(tvm.IRModule({"main": function}), target)
    random = np.random.default_rng(0)
    data, table = random.integers(0, 256, shape, np.uint8), random.permutation(256).astype(np.uint8)
    out = tvm.runtime.tensor(np.zeros(shape, types[1]))
    library["main"](tvm.runtime.tensor(data.view(types[0])), tvm.runtime.tensor(table), out)
    np.testing.assert_array_equal(out.numpy().view(np.uint8), table[data])


@pytest.mark.parametrize(
    ("attributes", "lanes"),
    [
        ({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu"}, 64),
        ({"mcpu": "x86-64-v4", "mtriple": "x86_64-linux-gnu"}, 32),
        ({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"}, None),
        ({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}, 16),
        ({"mcpu": "cortex-a7", "mtriple": "armv7l-linux-gnueabihf", "mattr": ("+neon",)}, None),
    ],
)
def test_which_way_a_target_has(attributes: dict[str, AttributeValue], lanes: int | None) -> None:
    found = find_lookup(tvm_target("llvm", FrozenMap({**attributes, "num-cores": 2}), FrozenMap()))
    assert (found and found.lanes) == lanes


def test_code_for_aarch64_has_its_instruction() -> None:
    attributes: dict[str, AttributeValue] = {"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 2}
    target = tvm_target("llvm", FrozenMap(attributes), FrozenMap())
    lookup = choose_lookup({"neon", "v8a"})
    assert lookup is not None
    function = write_lookup((1000,), ("uint8", "int8"), lookup, describe_machine(target)).with_attr(
        "global_symbol", "main"
    )
    assembly = tvm.compile(tvm.IRModule({"main": function}), target).mod.inspect_source("asm")
    assert assembly.count("tbl\t") >= 4
