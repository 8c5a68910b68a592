"""One package of the packages for each size of a model: their code, and all their weights in one pool."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.size_specs import Axis, Size, Sizes
from tvmbuild.building.size_costs import expect_ns
from tvmbuild.compiler.passes.lift_constants import params_bytes
from tvmbuild.package.archive import Package
from tvmbuild.package.metadata import PackageCoverage, PackageInfo
from tvmbuild.package.size_functions import MAIN, SizeFunction, SizeFunctions, name_library
from tvmbuild.package.weights import FILLER


@dataclass(frozen=True)
class Varying:
    """The shapes of a model in letters, and the letters along which inputs may be padded."""

    sizes: Sizes
    outputs: FrozenMap[str, tuple[Axis, ...]]
    padded: tuple[str, ...]


class WeightPool:
    """The weights of all sizes. Equal tensors are stored once."""

    def __init__(self) -> None:
        self.tensors: list[tvm.runtime.Tensor] = []
        self.bytes = 0
        self._places: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def add(self, params: bytes | memoryview) -> tuple[int, ...]:
        """Add the tensors of a mod.params, and return their places in the pool."""
        loaded = tvm.runtime.load_param_dict(bytes(params))
        names = sorted(name for name in map(str, loaded) if not name.startswith(FILLER))
        return tuple(self._add(loaded[name]) for name in names)

    def _add(self, tensor: tvm.runtime.Tensor) -> int:
        array = tensor.numpy()
        key = (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._places:
            self._places[key] = len(self.tensors)
            self.tensors.append(tensor)
            self.bytes += array.nbytes
        return self._places[key]


def join_packages(packages: Sequence[tuple[Size, Package]], varying: Varying) -> Package:
    """Return one package of those for each size, the largest last. Its weights are one pool.

    A weight that two sizes want in different layouts is in the pool twice. A note gives the cost in bytes.
    """
    pool, functions = WeightPool(), dict[Size, SizeFunction]()
    *others, (largest, last) = packages
    alone = 0
    for size, package in [(largest, last), *others]:  # the weights of the largest come first, so that it alone can run
        library = MAIN if size == largest else name_library(size)
        outputs = FrozenMap((each.name, each.shape) for each in package.info.outputs)
        places = pool.add(package.params) if package.info.params == "lifted" else ()
        cost = expect_ns(package.info) if varying.sizes.range else 0
        operators = None if size == largest else package.info.operators
        functions[size] = SizeFunction(size.values, library, places, outputs, cost, operators)
        alone = alone or pool.bytes
    sizes = varying.sizes
    found = SizeFunctions(
        sizes.inputs,
        varying.outputs,
        tuple(functions[size] for size, _ in packages),
        varying.padded,
        sizes.pad,
        sizes.range,
    )
    infos = [package.info for _, package in packages]
    info = replace(
        last.info,
        sizes=found,
        params="lifted" if any(each.params == "lifted" for each in infos) else "embedded",
        coverage=_join_coverage(infos),
        notes=tuple(dict.fromkeys([_describe_cost(packages, pool, alone), *(n for each in infos for n in each.notes)])),
    )
    libraries = FrozenMap((functions[size].library, package.library) for size, package in others)
    return Package(info, last.library, params_bytes(tuple(pool.tensors)), libraries)


def _join_coverage(infos: Sequence[PackageInfo]) -> PackageCoverage:
    """Return the coverage of the Tasks of all sizes, each counted once."""
    tasks = {each.key: each for info in reversed(infos) for each in info.operators or ()}
    missing = tuple(each.name for each in tasks.values() if not each.covered)
    return PackageCoverage(len(tasks), len(tasks) - len(missing), missing)


def _describe_cost(packages: Sequence[tuple[Size, Package]], pool: WeightPool, alone: int) -> str:
    """Return a note about the bytes that all sizes cost. The largest size alone needs ``alone`` bytes of weights."""
    code = sum(len(package.library) for _, package in packages[:-1])
    return (
        f"{len(packages)} sizes: the largest needs {alone / 1e6:.1f} MB of weights; the others add "
        f"{(pool.bytes - alone) / 1e6:.1f} MB in other layouts, and {code / 1e6:.1f} MB of code"
    )
