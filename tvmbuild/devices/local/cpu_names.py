"""LLVM's names of CPUs; run as a program, it prints a JSON map from each to its triple.

`python -m tvmbuild.devices.local.cpu_names`. No tvm at the top: who starts it imports `TRIPLES`.
"""

from __future__ import annotations

import json
import platform
import sys

from tvmbuild.base.host_cpu import machine_of

TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""What a CPU's name alone tells; 32-bit ARM and RISC-V also need their instruction sets and calling conventions."""
_64_BIT = {"x86_64": "64bit"}
"""By machine, LLVM's feature of the CPUs that run 64-bit code, where there are others."""
_NONE = {"generic"}


def list_cpu_names() -> dict[str, str]:
    """Return the triple of every CPU that LLVM knows; a name of several machines is this machine's."""
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
