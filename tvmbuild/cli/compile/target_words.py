"""The conversion of `--target` to an entry of targets.yaml.

The text is a name in this folder's targets.yaml, a known board, LLVM's name of a CPU, or a GPU's kind and model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.layout import TARGETS_YAML
from tvmbuild.base.processes import run_module
from tvmbuild.cli.target.boards import list_boards
from tvmbuild.cli.target.lock import describe_device
from tvmbuild.config.load import load_targets
from tvmbuild.devices.local.cpu_names import TRIPLES
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.targets.table import TARGETS, target_kind

FORMS = "LLVM's name of a CPU, cuda:sm_87, vulkan:intel-iris-xe, cuda, vulkan, a board (pi5), or a name of targets.yaml"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""The x86-64 levels, which need no question to LLVM, because that takes seconds."""
GLIBC = "2.28"
"""The oldest glibc for the package. Distributions have had it since 2018."""
CARD: Mapping[str, AttributeValue] = {
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
    "registers_per_block": 65536,
}
"""The attributes of every NVIDIA GPU whose `arch` is accepted; see docs/how-to/cuda.md."""
HOSTS = {
    "sm_72": "carmel",
    "sm_87": "cortex-a78ae",
    "sm_110": "neoverse-v3ae",
    "sm_121": "gb10",
}
"""A GPU's architecture → LLVM's name of the CPU on the same chip: NVIDIA's Jetson boards and DGX Spark."""
_ARCH = re.compile(r"sm_[0-9]{2,3}[af]?")
_OTHER_CORES = 4
"""The number of threads for another machine than this one. `tvmbuild.load(threads=)` overrides it."""


@dataclass(frozen=True)
class TargetWords:
    """A target of the command line as an entry of targets.yaml."""

    name: str
    data: dict[str, Any]
    of_project: bool = False
    """True if the target is from this folder's targets.yaml, so that its records are beside that file."""


def find_target(text: str | None, folder: Path | None = None) -> TargetWords:
    """Return the target that ``text`` names, or this machine's CPU if ``text`` is None.

    A target of that name in the targets.yaml of ``folder`` has precedence. For an unknown word, raise TvmbuildError,
    which names the nearest known one.
    """
    own = load_targets(folder) if folder and (folder / TARGETS_YAML).is_file() else {}
    if text is not None and text in own:
        return TargetWords(text, {**own[text], "enabled": True}, of_project=True)
    if text is not None and text in (boards := list_boards()):
        return TargetWords(text, boards[text])
    if text is None:
        cpu = describe_device("llvm", 0)
        return TargetWords(_as_name(str(cpu["mcpu"])), _cpu_target(cpu))
    kind, colon, device = text.partition(":")
    if kind == "cuda" and (not colon or _ARCH.fullmatch(device)):
        return TargetWords(_as_name(text), _cuda_target(device))
    if kind == "vulkan" and (not colon or device in TARGETS["vulkan"].families):
        return TargetWords(_as_name(text), _vulkan_target(device))
    cpus = _list_cpus() if text not in LEVELS else dict.fromkeys(LEVELS, TRIPLES["x86_64"])
    if text in cpus:
        return TargetWords(_as_name(text), _cpu_target({"mcpu": text, "mtriple": cpus[text]}))
    raise _explain(text, [*own, *boards, *cpus])


def _explain(text: str, known: list[str]) -> TvmbuildError:
    kind, colon, device = text.partition(":")
    if colon and kind == "vulkan":
        families = list(TARGETS["vulkan"].families)
        near = find_nearest(device, families)
        hint = f"{suggest(near and f'vulkan:{near}')}Families are {', '.join(families)}."
        return TvmbuildError(f"vulkan has no family {device}", hint)
    if colon and kind == "cuda":
        hint = "Write cuda: and the card's compute capability, such as cuda:sm_87."
        return TvmbuildError(f"{device} is not an architecture of NVIDIA's cards", hint)
    boards = (board for board in list_boards() if text and (text in board or board in text))
    words = [*known, *TARGETS, *(f"vulkan:{each}" for each in TARGETS["vulkan"].families)]
    near = next(boards, None) or find_nearest(text, words)
    return TvmbuildError(f"there is no target {text or repr(text)}", f"{suggest(near)}A target is {FORMS}.")


def _as_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_.-]", "-", text.lower())


def _cpu_target(cpu: Mapping[str, AttributeValue]) -> dict[str, Any]:
    return {"kind": "llvm", **_plain(cpu), "num-cores": _count_cores(cpu), "glibc": GLIBC, "device": "local"}


def _cuda_target(arch: str) -> dict[str, Any]:
    if not arch:
        return {"kind": "cuda", **_plain(describe_device("cuda", 0)), "host": _this_host(), **_rest()}
    mcpu = HOSTS.get(arch.rstrip("af"))
    host = {"mcpu": mcpu, "mtriple": TRIPLES["aarch64"], "num-cores": _OTHER_CORES} if mcpu else _usual_host()
    return {"kind": "cuda", "arch": arch, **CARD, "host": host, **_rest()}


def _vulkan_target(family: str) -> dict[str, Any]:
    if not family:
        return {"kind": "vulkan", **_plain(describe_device("vulkan", 0)), "host": _this_host(), **_rest()}
    return {"kind": "vulkan", "family": family, "host": _usual_host(), **_rest()}


def _rest() -> dict[str, Any]:
    return {"glibc": GLIBC, "device": "local"}


def _this_host() -> dict[str, Any]:
    cpu = describe_device("llvm", 0)
    return {**_plain(cpu), "num-cores": _count_cores(cpu)}


def _usual_host() -> dict[str, Any]:
    host: dict[str, AttributeValue] = {"mcpu": "x86-64-v3", "mtriple": TRIPLES["x86_64"]}
    return {**host, "num-cores": _count_cores(host)}


def _count_cores(cpu: Mapping[str, AttributeValue]) -> int:
    """Return the number of cores that this process may use if the CPU's code runs here, else _OTHER_CORES."""
    here = detect_capabilities()
    runs = target_kind("llvm").explain_here(Attributes({**cpu, "num-cores": 1}), here) is None
    return here.cores if runs and here.cores else _OTHER_CORES


def _plain(attributes: Mapping[str, AttributeValue]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()}


def _list_cpus() -> dict[str, str]:
    done = run_module("tvmbuild.devices.local.cpu_names")
    if done.returncode:
        raise RuntimeError(f"LLVM could not be asked for its CPUs:\n{done.stderr}")
    names: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return names
