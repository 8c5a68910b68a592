"""Which processes hold device locks now, from the kernel's table."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.layout import runtime_dir

LOCKS = Path("/proc/locks")


def list_holders() -> list[tuple[str, str]]:
    """Return (device, holder) of every device lock that is held; empty where the kernel has no /proc/locks."""
    folder = runtime_dir()
    if not folder.is_dir() or not LOCKS.exists():
        return []
    inodes = {path.stat().st_ino: path.stem for path in folder.glob("*.lock")}
    found = []
    for line in LOCKS.read_text().splitlines():
        # "3: FLOCK  ADVISORY  WRITE 4711 fd:01:123456 0 EOF"; "3: -> FLOCK …" is one that waits
        fields = line.split()
        if "->" in fields or len(fields) < 6 or fields[1] != "FLOCK":
            continue
        device = inodes.get(int(fields[5].rsplit(":", maxsplit=1)[1]))
        if device is not None:
            sharing = "exclusively" if fields[3] == "WRITE" else "shared"
            found.append((device, f"process {fields[4]} ({_name(fields[4])}), {sharing}"))
    return found


def _name(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:60]
    except OSError:
        return "ended"
