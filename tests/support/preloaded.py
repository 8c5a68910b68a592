"""Libraries in C that tests load before all others, with LD_PRELOAD."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from made_once import make_once


def preload(name: str) -> dict[str, str]:
    """Return an environment with the library of the C file of this folder with that name."""

    def build(folder: Path) -> None:
        source = Path(__file__).with_name(f"{name}.c")
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", str(source)]
        subprocess.run([*command, "-o", str(folder / f"{name}.so"), "-ldl"], check=True)

    return {**os.environ, "LD_PRELOAD": str(make_once(("preloaded", name), build) / f"{name}.so")}
