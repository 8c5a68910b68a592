"""The process that `planning.detection` starts: it asks TVM and the machine for capabilities and prints a JSON line."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.errors import TvmbuildError
from tvmbuild.targets.table import TARGETS


def main() -> int:
    """Print the capabilities, or the error of this machine, as JSON on the last line of stdout."""
    try:
        answer = asdict(probe())
    except TvmbuildError as error:
        answer = {"error": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps(answer, default=dict))
    print()
    return 0


def probe() -> Capabilities:
    """Import TVM and return the capabilities that it reports. The caller adds tool versions and linkers."""
    for kind in TARGETS.values():
        kind.prepare()
    import tvm  # noqa: PLC0415 - only this process may pay for it

    def has(name: str) -> bool:
        return tvm.get_global_func(name, allow_missing=True) is not None

    running = [kind for kind in TARGETS.values() if kind.has_runtime(has)]
    found = Capabilities(
        codegens=tuple(name for name, kind in TARGETS.items() if kind.has_codegen(has)),
        runtimes=tuple(kind.name for kind in running),
        devices=tuple(kind.name for kind in running if kind.answers()),
        machine=platform.machine(),
    )
    for kind in TARGETS.values():
        found = kind.probe(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
