"""The Task keys of networks for six targets, compared with those in `tests/compiler/task_keys.json`.

    PYTHONPATH=.:benchmarks:benchmarks/networks/made python tests/support/task_keys.py [NETWORK …]

Rewrites the file, or these networks' part of it, and prints the changes.
A Task's record is found by its key: a changed key orphans the records of every user, so a change needs a reason.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import tvm_ffi
from task_key_files import find_file, list_files
from task_key_networks import NETWORKS

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.scheduling import import_for, lower_for, make_target
from tvmbuild.compiler.passes.winograd.apply_winograd import TILES
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import Schedule
from tvmbuild.targets.vulkan_families import FAMILIES

KEPT = Path(__file__).resolve().parents[1] / "compiler" / "task_keys.json"
COMMAND = "PYTHONPATH=.:benchmarks:benchmarks/networks/made python tests/support/task_keys.py"
SHORT, NAME = 8, 40
"""The hexadecimal digits of a key, and the letters of a Task's name, in the file; its digest is of whole keys."""

_HOST: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
_ORIN: Attributes = FrozenMap(
    {
        "arch": "sm_87",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
        "registers_per_block": 65536,
        "l2_cache_size_bytes": 4194304,
    }
)


def _cpu(name: str, mcpu: str, triple: str, cores: int, *features: str) -> PackageTarget:
    attributes: dict[str, AttributeValue] = {"mcpu": mcpu, "mtriple": triple, "num-cores": cores}
    if features:
        attributes["mattr"] = features
    return PackageTarget(name, "llvm", FrozenMap(attributes))


TARGETS: Mapping[str, PackageTarget] = {
    each.name: each
    for each in (
        _cpu("x86-64-v3", "x86-64-v3", "x86_64-linux-gnu", 2),
        _cpu("x86-64-vnni", "x86-64-v4", "x86_64-linux-gnu", 2, "+avx512vnni"),
        _cpu("pi4", "cortex-a72", "aarch64-linux-gnu", 4, "+neon"),
        PackageTarget("orin", "cuda", _ORIN, _HOST),
        PackageTarget("orin-fp16", "cuda", _ORIN, _HOST, precision="fp16"),
        PackageTarget("nuc-vulkan", "vulkan", FrozenMap(FAMILIES["intel-iris-xe"]), _HOST),
    )
}
"""Together they take every branch of the pipeline: dot instructions of both signs, GPUs in NCHW and NHWC, plain ones.

No attribute depends on this machine.
"""


@dataclass(frozen=True)
class Keys:
    """The kept facts of a network lowered for a target."""

    tasks: Mapping[str, str]
    """Whole key → name."""
    module: str
    """The digest of the whole module's structure: calls, their order, shapes; without the weights' numbers."""
    notes: str

    @property
    def digest(self) -> str:
        """The digest of the whole keys."""
        return hashlib.sha256(" ".join(sorted(self.tasks)).encode()).hexdigest()[:16]

    @property
    def line(self) -> str:
        """The line in the file: the keys' digest, the module's, notes, and each key's beginning."""
        shown = sorted(key[:SHORT] for key in self.tasks)
        return " ".join([self.digest, self.module, self.notes, *shown])


def is_refused(network: str, target: str) -> bool:
    """Return whether a network is not for a target.

    Quantised networks have no 16-bit floats, and only CPUs choose an algorithm or a layout by measurement.
    """
    name, _, way = network.partition("+")
    if way == "tf32":
        return target != "orin"
    return (target == "orin-fp16" and "int8" in name) or (way != "" and TARGETS[target].on_gpu)


@cache
def read_network(name: str) -> bytes:
    """Return a network; a real one is simplified as `tvmbuild` does it."""
    if name in NETWORKS:
        return bytes(onnx.shape_inference.infer_shapes(NETWORKS[name]()).SerializeToString(deterministic=True))
    return find_file(name)


def find_keys(network: str, target: str) -> Keys:
    """Lower a network as compiling does: by rule, or with the variant in ``NETWORK+winograd4`` or ``NETWORK+NCHW``."""
    name, _, way = network.partition("+")
    wanted = replace(TARGETS[target], precision="tf32") if way == "tf32" else TARGETS[target]
    own = make_target(wanted)
    imported = import_for(read_network(name), wanted, name)
    lowered = lower_for(imported, own, Schedule(layout="NCHW" if way == "NCHW" else None))
    if way in TILES:
        signatures = [each.convolution.signature for each in lowered.convolutions]
        assert signatures, f"{name} has no convolution for {way}"
        lowered = lower_for(imported, own, Schedule(algorithms=FrozenMap(dict.fromkeys(signatures, way))))
    return _describe(lowered)


def _describe(lowered: Lowered) -> Keys:
    structure = tvm_ffi.structural_hash(lowered.mod, map_free_vars=True, skip_tensor_content=True)
    told = hashlib.sha256(repr((lowered.layout, lowered.notes)).encode()).hexdigest()[:8]
    tasks = {task.key: task.name for task in extract_tasks(lowered)}
    return Keys(tasks, f"{structure & 0xFFFFFFFFFFFFFFFF:016x}", f"{lowered.layout}:{told}")


@cache
def read_kept() -> dict[str, Any]:
    """Return the file's content: `cells`, network@target → line, and `tasks`, key → name."""
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    return {"made_with": {}, "cells": {}, "tasks": {}, **found}


def list_targets(network: str) -> list[str]:
    """Return the names of the targets for which a network is lowered."""
    return [target for target in TARGETS if not is_refused(network, target)]


def explain_changes(network: str, targets: Iterable[str] | None = None) -> list[str]:
    """Return the differences from the file, a paragraph for each target."""
    return [
        told
        for target in targets or list_targets(network)
        if (told := compare(f"{network}@{target}", find_keys(network, target), read_kept())) is not None
    ]


def compare(cell: str, got: Keys, kept: Mapping[str, Any]) -> str | None:
    """Return the Tasks of a cell that appeared and disappeared; None without changes."""
    line = kept["cells"].get(cell)
    if line == got.line:
        return None
    if line is None:
        return f"{cell} is not in {KEPT.name}: {COMMAND} {cell.partition('@')[0]}"
    digest, module, notes, *keys = line.split(" ")
    names = {key[:SHORT]: name for key, name in got.tasks.items()}
    told = [f"{cell}:"]
    told += [f"  appeared {key} {names[key]}" for key in sorted(names.keys() - set(keys))]
    told += [f"  disappeared {key} {kept['tasks'].get(key, '?')}" for key in sorted(set(keys) - names.keys())]
    told += ["  the keys' digest is another"] if digest != got.digest and len(told) == 1 else []
    told += ["  its Tasks are called otherwise, or in another order"] if module != got.module else []
    told += [f"  layout and notes are {got.notes}, were {notes}"] if notes != got.notes else []
    return "\n".join(told)


def explain_versions() -> str:
    """Return the libraries for simplifying and importing whose versions differ from the file's."""
    made, here = read_kept()["made_with"], _list_versions()
    others = [f"{name} {here[name]} (was {made.get(name)})" for name in here if here[name] != made.get(name)]
    return f"not the same libraries: {', '.join(others)}" if others else ""


def _list_versions() -> dict[str, str]:
    return {name: version(name) for name in ("apache-tvm", "onnx", "onnxsim", "onnxruntime")}


def list_small() -> list[str]:
    """Return the names of the small networks, some of them also in variants."""
    return [*NETWORKS, *(f"large_convolution+{way}" for way in (*TILES, "NCHW", "tf32")), "int8_moved+NCHW"]


def write(networks: Iterable[str], tell: Callable[[str], None] = print) -> None:
    """Write the networks' part of the file."""
    kept = {name: dict(part) for name, part in read_kept().items()}
    known = {*list_small(), *list_files()}
    cells = {cell: line for cell, line in kept["cells"].items() if cell.partition("@")[0] in known}
    tasks = dict(kept["tasks"])
    for network in networks:
        began = time.perf_counter()
        for target in list_targets(network):
            cell, got = f"{network}@{target}", find_keys(network, target)
            if cell in cells and (told := compare(cell, got, kept)) is not None:
                tell(told)
            cells[cell] = got.line
            tasks |= {key[:SHORT]: name[:NAME] for key, name in got.tasks.items()}
        tell(f"{network}: {time.perf_counter() - began:.1f} s")
    used = {key for line in cells.values() for key in line.split(" ")[3:]}
    content = {
        "made_with": _list_versions(),
        "cells": dict(sorted(cells.items())),
        "tasks": {key: name for key, name in sorted(tasks.items()) if key in used},
    }
    KEPT.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:] or [*list_small(), *(name for name, there in list_files().items() if there)])
