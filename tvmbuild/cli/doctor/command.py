"""The command `tvmbuild doctor`: list what this machine can build, link and run, and how to get the rest."""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from tvmbuild.base.capabilities import Capabilities, installed_version
from tvmbuild.base.console import make_console
from tvmbuild.base.finding import Finding
from tvmbuild.base.layout import cache_dir, runtime_dir
from tvmbuild.base.specs import CacheSpec, Project, TargetSpec
from tvmbuild.config import load_project
from tvmbuild.devices.table import device_kind
from tvmbuild.engine.cache.entries import measure_usage
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.availability import explain_unavailable
from tvmbuild.planning.detection import detect_capabilities, forget_probe
from tvmbuild.planning.project import find_cache, find_root
from tvmbuild.targets.table import TARGETS

HELP = "say what this machine can build, link and run, and how to get the rest"
MARKS = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "wrong": "[red]wrong[/]"}
LOW_DISK = 2 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--cached", action="store_true", help="use the last probe of TVM instead of probing again")
    parser.add_argument(
        "--vulkan-selftest", action="store_true", help="compute every class of kernels on the Vulkan device and here"
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings. Return 1 if something is wrong, and 0 if something is only missing."""
    if args.vulkan_selftest:
        from tvmbuild.cli.doctor.selftest import run_selftest  # noqa: PLC0415 - imports TVM

        return run_selftest()
    if not args.cached:
        forget_probe()
    project, mistaken = _load_project()
    targets = project.targets if project else ()
    capabilities = detect_capabilities(target.link for target in targets if target.link != "auto")
    findings = [*check_installation(capabilities), *_check_machine(capabilities)]
    findings += [*mistaken, *check_targets(targets, capabilities)]
    findings += [check_cache(find_cache(project))] if project else []
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        remedy = f"\n{finding.remedy}" if finding.remedy else ""
        table.add_row(MARKS[finding.state], finding.what, (finding.detail + remedy).replace("[", r"\["))
    make_console().print(table)
    return 1 if any(finding.state == "wrong" for finding in findings) else 0


def _load_project() -> tuple[Project | None, list[Finding]]:
    """Return the project around the current folder, or None, and a finding if its YAML files have mistakes."""
    try:
        root = find_root(Path.cwd())
    except TvmbuildError:
        return None, []
    try:
        return load_project(root), []
    except TvmbuildError as error:
        count = len(error.message.splitlines())
        found = f"{root}: {count} mistake{'s' * (count > 1)} in its YAML files"
        return None, [Finding("wrong", "project", found, "`tvmbuild plan` lists them.")]


def _check_machine(capabilities: Capabilities) -> Iterator[Finding]:
    levels = [level for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if level in capabilities.runnable_cpus]
    cpu = f"{capabilities.machine}, LLVM calls it {capabilities.host_cpu}"
    yield Finding("ok", "CPU", cpu + (f"; runs code up to {levels[-1]}" if levels else ""))
    holders = list_holders()
    for device, holder in holders:
        yield Finding("ok", f"device {device}", f"in use now by {holder}; timings wait for it")
    if not holders:
        yield Finding("ok", "devices", "none is in use now")
    for what, folder in (("disk, build", _build_place()), ("disk, cache", cache_dir())):
        yield _check_disk(what, folder)
    tvmbuild = installed_version("tvmbuild")
    yield Finding("ok", "tvmbuild", f"{tvmbuild or 'not installed as a distribution'}")


def _build_place() -> Path:
    try:
        return find_root(Path.cwd()) / "build"
    except TvmbuildError:
        return Path.cwd()  # outside a project, a new one would be made here


def _check_disk(what: str, folder: Path) -> Finding:
    place = next(candidate for candidate in (folder, *folder.parents) if candidate.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free / (1 << 30):.1f} GB free at {folder}"
    if free < LOW_DISK:
        return Finding("missing", what, detail, "Tuning and packages need room: free some.")
    return Finding("ok", what, detail)


# The doctor's checks of the installation: versions, code generators, linkers. No TVM is imported.


def check_installation(capabilities: Capabilities) -> Iterator[Finding]:
    """Yield the findings about installed distributions and TVM's capabilities."""
    yield from _check_pins(capabilities)
    yield _check_xgboost(capabilities)
    yield from (kind.check(capabilities) for kind in TARGETS.values())
    yield _check_linker(capabilities)


def list_pins() -> dict[str, str]:
    """Return the exact versions that tvmbuild's metadata requires: distribution → version."""
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


# The processes that hold device locks now, from the kernel's table.

LOCKS = Path("/proc/locks")


def list_holders() -> list[tuple[str, str]]:
    """Return (device, holder) for each device lock that a process holds now.

    The list is empty if the kernel has no /proc/locks.
    """
    folder = runtime_dir()
    if not folder.is_dir() or not LOCKS.exists():
        return []
    inodes = {path.stat().st_ino: path.stem for path in folder.glob("*.lock")}
    found = []
    for line in LOCKS.read_text().splitlines():
        # "3: FLOCK  ADVISORY  WRITE 4711 fd:01:123456 0 EOF"; "3: -> FLOCK …" is a waiting lock
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


# The doctor's checks of the project around the current folder: its targets on this machine, and its step cache.


def check_targets(targets: Sequence[TargetSpec], capabilities: Capabilities) -> Iterator[Finding]:
    """Yield a finding for each target: whether this machine can build and run it. If not, the remedy has the reason."""
    for target in targets:
        what, device = f"target {target.name}", device_kind(target.device)
        unbuilt = explain_unavailable("compile", target, capabilities)
        idle = explain_unavailable("benchmark", target, capabilities)
        if unbuilt:
            yield Finding("missing", what, "is not built here", unbuilt)
        elif not device.runs:
            yield Finding("ok", what, "is built here; it has no device to run on")
        elif idle:
            yield Finding("missing", what, "is built here and does not run", idle)
        else:
            yield Finding("ok", what, f"is built here and runs on {device.describe_use(target.device, target)}")


def check_cache(cache: CacheSpec | None) -> Finding:
    """Return a finding with the size of the step cache. ``cache`` is None if the cache is off."""
    if cache is None:
        return Finding("ok", "step cache", "off; `cache:` in targets.yaml or TVMBUILD_CACHE names a folder for it")
    try:
        usage = measure_usage(cache.path)
    except OSError as error:
        remedy = "Name a folder that you may read and write; until then steps run without it."
        return Finding("missing", "step cache", f"{cache.path} cannot be read: {error.strerror}", remedy)
    entries = "1 entry" if usage.entries == 1 else f"{usage.entries} entries"
    return Finding("ok", "step cache", f"{entries}, {usage.size / 1e9:.2f} of {cache.size / 1e9:g} GB, in {cache.path}")
