"""The command `tvmbuild pack CELL…`: packages of one model for several targets in one file."""

from __future__ import annotations

import argparse
import functools
import json
import platform
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from tvmbuild.base.cpu_features import FEATURES
from tvmbuild.base.host_cpu import machine_of
from tvmbuild.base.layout import Layout
from tvmbuild.benchmarking.results import read_result
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, read_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.pack import write_pack
from tvmbuild.package.runtime.host import required_flags
from tvmbuild.planning.project import find_root

HELP = "put a model's packages for several targets into one file, from which `tvmbuild.load` chooses"
_KINDS = ("cuda", "vulkan", "llvm")
"""The kinds of targets, those that are expected to be faster first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "cells", metavar="CELL", nargs="+", help="globs of MODEL@TARGET of this project, or files of packages"
    )
    parser.add_argument("-o", "--output", metavar="FILE.tar", type=Path, required=True)


def run(args: argparse.Namespace) -> int:
    """Write the pack and return the exit code."""
    found: dict[str, Path] = {}
    list_cells = functools.cache(_list_cells)  # only if a word is not a file
    for word in args.cells:
        found |= {Path(word).stem: Path(word)} if Path(word).is_file() else _find_built(word, list_cells())
    packages = {name: read_package(path) for name, path in found.items()}
    times = {name: _read_time(path) for name, path in found.items()}
    names = order_packages(packages, times)
    write_pack(args.output.absolute(), {name: packages[name] for name in names})
    size, alone = args.output.stat().st_size / 1e6, sum(path.stat().st_size for path in found.values()) / 1e6
    print(f"wrote {args.output}: {size:.1f} MB; as separate files: {alone:.1f} MB")
    for name in names:
        print(f"  {name}")
    return 0


def order_packages(packages: Mapping[str, Package], times_ms: Mapping[str, float | None]) -> list[str]:
    """Return the names of packages, the one that a machine is to try first at the beginning.

    Kinds of targets come in the order of their expected speed. Of one kind, a target that needs more comes before one
    that needs less, and equal ones are in the order of their measured times. Raises TvmbuildError if a target of
    several for one architecture names a CPU and not its instruction sets: a machine cannot tell whether it has them.
    """
    targets = {name: package.info.target for name, package in packages.items()}
    _require_levels(targets)
    return sorted(packages, key=lambda name: (*_rank(targets[name]), times_ms.get(name) or 0))


def _rank(target: PackageTarget) -> tuple[int, int]:
    return _KINDS.index(target.kind) if target.kind in _KINDS else len(_KINDS), -len(required_flags(target))


def _require_levels(targets: dict[str, PackageTarget]) -> None:
    for name, target in targets.items():
        cpu, machine = str(target.cpu.get("mcpu", "")), _machine(target)
        alike = [other for other, each in targets.items() if other != name and _machine(each) == machine]
        states = target.flags is not None or cpu in ("", "generic") or cpu.startswith("x86-64")
        if alike and not states and target.kind == "llvm" and machine in FEATURES:
            raise TvmbuildError(
                f"{name} is for {cpu} and does not state its instruction sets, so no machine can tell whether it runs "
                f"such code, and {alike[0]} would not be chosen where it is needed",
                "build it again",
            )


def _machine(target: PackageTarget) -> str:
    return machine_of(str(target.cpu.get("mtriple", ""))) or machine_of(platform.machine())


def _list_cells() -> dict[tuple[str, str], Path]:
    """Return the cells (model, target) of this project, each with the place of its package."""
    root = find_root(Path.cwd())
    project, layout = load_project(root), Layout(root)
    cells = [(m.name, t.name) for m in project.models for t in project.targets if m.includes(t.name)]
    return {cell: layout.package(*cell) for cell in cells}


def _find_built(glob: str, cells: Mapping[tuple[str, str], Path]) -> dict[str, Path]:
    """Return the packages of the cells that a glob matches. Raises TvmbuildError if one is missing, or all are."""
    chosen = {"-".join(cell): path for cell, path in cells.items() if fnmatchcase("@".join(cell), glob)}
    if not chosen:
        raise TvmbuildError(f"no cell and no file matches {glob!r}", "`tvmbuild list --all` shows every step")
    absent = [name for name, path in chosen.items() if not path.is_file()]
    if absent:
        raise TvmbuildError(f"{', '.join(absent)} is not built", f"`tvmbuild 'compile:{glob}'` builds what is missing")
    return chosen


def _read_time(package: Path) -> float | None:
    try:
        result = read_result(json.loads((package.parent / "result.json").read_bytes()))
    except (OSError, ValueError):  # a file outside of a project, or a cell that was never timed
        return None
    return None if result is None else result.latency.median.value
