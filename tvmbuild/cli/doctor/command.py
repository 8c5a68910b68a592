"""`tvmbuild doctor`: what this machine can build, link and run, and how to get the rest."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from tvmbuild.base.capabilities import Capabilities, installed_version
from tvmbuild.base.console import make_console
from tvmbuild.base.finding import Finding
from tvmbuild.base.layout import cache_dir
from tvmbuild.base.specs import Project
from tvmbuild.cli.doctor.checks import check_installation
from tvmbuild.cli.doctor.holders import list_holders
from tvmbuild.cli.doctor.project import check_cache, check_targets
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities, forget_probe
from tvmbuild.planning.project import find_cache, find_root

HELP = "say what this machine can build, link and run, and how to get the rest"
MARKS = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "wrong": "[red]wrong[/]"}
LOW_DISK = 2 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--cached", action="store_true", help="believe the last probe of TVM instead of probing again")
    parser.add_argument(
        "--vulkan-selftest", action="store_true", help="compute every class of kernels on the Vulkan device and here"
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when something is wrong, 0 when something is merely missing."""
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
    """Return the project around the current folder, none outside one; a broken one is a finding."""
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
        return Path.cwd()  # outside a project: where one would be made


def _check_disk(what: str, folder: Path) -> Finding:
    place = next(candidate for candidate in (folder, *folder.parents) if candidate.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free / (1 << 30):.1f} GB free at {folder}"
    if free < LOW_DISK:
        return Finding("missing", what, detail, "Tuning and packages need room: free some.")
    return Finding("ok", what, detail)
