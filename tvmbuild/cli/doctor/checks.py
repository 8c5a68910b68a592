"""What the doctor looks at in the installation: versions, code generators, linkers. No TVM is imported."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.targets.table import TARGETS


def check_installation(capabilities: Capabilities) -> Iterator[Finding]:
    """Yield the findings about installed distributions and what TVM answered."""
    yield from _check_pins(capabilities)
    yield _check_xgboost(capabilities)
    yield from (kind.check(capabilities) for kind in TARGETS.values())
    yield _check_linker(capabilities)


def list_pins() -> dict[str, str]:
    """Return the exact versions that tvmbuild's own metadata asks for."""
    lines = importlib.metadata.requires("tvmbuild") or ()
    return {match[1]: match[2] for line in lines if (match := re.fullmatch(r"([\w.-]+)==([\w.]+)", line))}


def _check_pins(capabilities: Capabilities) -> Iterator[Finding]:
    for name, wanted in list_pins().items():
        found = capabilities.version(name)
        if found == wanted:
            yield Finding("ok", name, found)
        else:
            why = "0.1.15 segfaults with this TVM" if name == "apache-tvm-ffi" else "other versions are untested"
            yield Finding(
                "wrong", name, f"{found or 'absent'}, expected {wanted}: {why}", f"pip install {name}=={wanted}"
            )


def _check_xgboost(capabilities: Capabilities) -> Finding:
    full, cpu = capabilities.version("xgboost"), capabilities.version("xgboost-cpu")
    if full and cpu:
        detail = f"xgboost {full} and xgboost-cpu {cpu} are both installed and overwrite each other's files"
        remedy = "pip uninstall -y xgboost xgboost-cpu && pip install xgboost-cpu"
        return Finding("wrong", "xgboost", detail, remedy)
    if not full and not cpu:
        return Finding("wrong", "xgboost", "absent: tuning has no cost model", "pip install xgboost-cpu")
    return Finding("ok", "xgboost", f"xgboost-cpu {cpu}" if cpu else f"xgboost {full}")


def _check_linker(capabilities: Capabilities) -> Finding:
    version = capabilities.version("ziglang")
    if version is None:
        return Finding(
            "wrong", "linker", "ziglang is absent: no target with `link: auto` can be linked", "pip install ziglang"
        )
    return Finding("ok", "linker", f"ziglang {version}: links for every target")
