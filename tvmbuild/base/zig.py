"""The bundled zig, a compiler and linker for every machine. This module needs no TVM."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tvmbuild.base.layout import cache_dir
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import TvmbuildError

DEFAULT_GLIBC = "2.28"
"""The oldest supported glibc if targets.yaml names none: Debian 10, Ubuntu 20.04, Raspberry Pi OS of 2020."""
SYSTEMS = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "arm": "arm-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
}
"""zig's name for Linux on each machine. 32-bit ARM has two, and this one fits Debian armhf and Raspberry Pi OS."""
ZIG = (sys.executable, "-m", "ziglang")


def zig_target(machine: str, glibc: str) -> str:
    """Return zig's name of a machine with Linux and at least that glibc."""
    return f"{SYSTEMS[machine]}.{glibc}"


def run_zig_cc(arguments: list[str], target: str, folder: Path) -> None:
    """Run `zig cc` in ``folder``, and link against the C library of ``target``.

    zig builds this library on first use, in 17 to 30 s. Raises TvmbuildError if zig fails.
    """
    built = zig_cache() / f"{target}-{version('ziglang')}.built"
    if not built.exists():
        report_progress(f"linking; zig builds the C library of {target} first, once: about half a minute")
    run_linker([*ZIG, "cc", "-target", target, *arguments], folder)
    with contextlib.suppress(OSError):  # if the cache cannot be written, nothing is kept
        built.touch()


def zig_cache() -> Path:
    """Return the folder in which zig caches what it builds."""
    named = os.environ.get("ZIG_GLOBAL_CACHE_DIR")
    return Path(named) if named else cache_dir() / "zig"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def run_linker(command: list[str], folder: Path) -> None:
    """Run a compiler or linker in ``folder``. Raises TvmbuildError if it fails."""
    kept = zig_cache()
    if not _is_writable(kept):
        report_progress(f"{kept} cannot be written: zig's outputs are not kept; XDG_CACHE_HOME names another")
        kept = folder / "zig-cache"
    cache = str(kept)
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()
        raise TvmbuildError(
            f"linking failed: {' '.join(command[:6])} …: {output[-2000:]}", "tvmbuild doctor checks linkers"
        )
