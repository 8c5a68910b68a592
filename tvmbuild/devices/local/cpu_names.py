"""LLVM's names of CPUs. Run as a program, it prints a JSON map from each name to its triple.

`python -m tvmbuild.devices.local.cpu_names`. It imports tvm only in the function, because the caller imports `TRIPLES`.
"""

from __future__ import annotations

import json
import platform
import sys

from tvmbuild.base.host_cpu import machine_of

TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""The machines whose CPU name implies the triple. 32-bit ARM and RISC-V need an instruction set and ABI too."""
_64_BIT = {"x86_64": "64bit"}
"""For a machine that also has 32-bit CPUs, LLVM's feature of the CPUs that run 64-bit code."""
_NONE = {"generic"}


def list_cpu_names() -> dict[str, str]:
    """Return the triple of every CPU that LLVM knows. If several machines share a name, this machine's triple wins."""
    from tvm.target import Target, codegen  # noqa: PLC0415 - the program's process alone

    found = {}
    here = machine_of(platform.machine())
    for machine, triple in sorted(TRIPLES.items(), key=lambda item: item[0] == here):
        target = {"kind": "llvm", "mtriple": triple}
        for name in map(str, codegen.llvm_get_cpu_archlist(Target(target))):
            features = set(map(str, codegen.llvm_get_cpu_features(Target({**target, "mcpu": name}))))
            if name not in _NONE and {_64_BIT.get(machine, "")} - {""} <= features:
                found[name] = triple
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list_cpu_names()) + "\n")
