"""A clock of the day that jumps, for programs of the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from made_once import make_once


def jump_clock() -> dict[str, str]:
    """Return an environment in which the clock of the day jumps a day forward or back at each look."""

    def build(folder: Path) -> None:
        source = Path(__file__).with_suffix(".c")
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", str(source)]
        subprocess.run([*command, "-o", str(folder / "clock.so")], check=True)

    return {**os.environ, "LD_PRELOAD": str(make_once(("jumping clock",), build) / "clock.so")}
