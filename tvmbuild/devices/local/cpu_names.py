"""LLVM's names of CPUs, with their target triples.

As a program, `python -m tvmbuild.devices.local.cpu_names`, it prints a JSON map from name to triple. The module imports
TVM only inside the function, because the caller in another process imports `TRIPLES`.
"""

from __future__ import annotations

import json
import platform
import sys

from tvmbuild.base.host_cpu import machine_of

TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""Machine → triple, for machines whose CPU names imply the triple. 32-bit ARM and RISC-V need an ISA and an ABI too."""
_64_BIT = {"x86_64": "64bit"}
"""Machine that also has 32-bit CPUs → LLVM's feature that only its 64-bit CPUs have."""
_NONE = {"generic"}


def list_cpu_names() -> dict[str, str]:
    """Return name → triple for every CPU in TRIPLES' machines that LLVM knows.

    If machines share a name, it gets this machine's triple.
    """
    from tvm.target import Target, codegen  # noqa: PLC0415 - the program's process only

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
