"""Programs that tests run in processes of their own."""

from __future__ import annotations

import subprocess
import sys


def run_child(code: str, environment: dict[str, str]) -> str:
    """Run a program that ends without an error; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    return done.stdout.strip()
