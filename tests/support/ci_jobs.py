"""The jobs of the example CI files as the platforms see them. Each runs on its own machine, that is a fresh git clone;
only the jobs of a permanent machine share theirs.

This is not a YAML runner: the commands are the files' own, run by bash in order; the platforms' work between them
(artefacts and caches) is done here. Commands that need a platform or a package index are left out.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LEFT_OUT = re.compile(r"pip\b.* install |-m venv|\.venv/bin/activate|^gh |\bgh pr ")
TIMEOUT_S = 400


@dataclass(frozen=True)
class Ran:
    """The result of one job."""

    code: int
    output: str
    root: Path

    @property
    def restored(self) -> list[str]:
        return re.findall(r"^ok (\S+) .* restored from the cache$", self.output, re.MULTILINE)

    @property
    def steps(self) -> list[str]:
        return re.findall(r"^ok (\S+)", self.output, re.MULTILINE)


@dataclass
class Platform:
    """The state of a platform that outlives a job's machine."""

    origin: Path
    """The bare repository."""
    folder: Path
    artifacts: dict[str, Path] = field(default_factory=dict)
    caches: dict[str, Path] = field(default_factory=dict)
    kept: Path | None = None
    """The checkout of the permanent machine."""
    count: int = 0

    def check_out(self, branch: str, clean: str) -> Path:
        """Return the checkout of the permanent machine, cleaned with these git flags; not cleaned without flags."""
        self.kept = root = self.kept or self.clone()
        commands = [["fetch", "--prune", "origin"], ["checkout", "--force", "-B", branch, f"origin/{branch}"]]
        commands += [["clean", clean]] if clean else []
        for command in commands:
            subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)
        return root

    def clone(self) -> Path:
        self.count += 1
        root = self.folder / f"machine{self.count}" / "project"
        root.parent.mkdir()
        subprocess.run(["git", "clone", "-q", str(self.origin), str(root)], check=True)
        return root

    def keep(self, store: dict[str, Path], name: str, root: Path, paths: Iterable[Path]) -> None:
        """Store a copy of the files and folders, relative to ``root``."""
        self.count += 1
        kept = self.folder / f"kept{self.count}"
        kept.mkdir()
        for path in paths:
            _copy(path, kept / path.relative_to(root))
        store[name] = kept

    def environment(self, root: Path, given: Mapping[str, str]) -> dict[str, str]:
        home = self.folder / "home"
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TVMBUILD_", "GIT_", "CI_"))}
        tools = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        own = {"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "COLUMNS": "200", "PATH": tools, "PWD": str(root)}
        return kept | own | dict(given)


def run_script(platform: Platform, root: Path, lines: Iterable[str], variables: Mapping[str, object]) -> Ran:
    """Run the commands in one bash, as both platforms do; the first failure ends them."""
    script = "\n".join(line for line in lines if not LEFT_OUT.search(line))
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=root,
        env=platform.environment(root, {name: str(value) for name, value in variables.items()}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, root)


def find_paths(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the paths that match the patterns."""
    return [Path(found) for pattern in patterns for found in sorted(glob.glob(str(root / pattern)))]  # noqa: PTH207


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True)
    else:
        shutil.copy2(source, to)


def _fill(value: object, context: Mapping[str, str]) -> str:
    """Return the text with its expressions replaced; `a || b` takes the first one with a value."""

    def find(found: re.Match[str]) -> str:
        return next((context[name] for name in found[1].split(" || ") if name in context), found[0])

    text = re.sub(r"-?\$\{\{ hashFiles\(.*?\) \}\}", "", str(value))
    return re.sub(r"\$\{\{ (.+?) \}\}", find, text)


class GitHub:
    """The jobs of a GitHub workflow."""

    def __init__(self, file: Path, platform: Platform) -> None:
        self.workflow: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.platform = platform
        self.outputs: dict[str, str] = {}

    def run(self, name: str, matrix: Mapping[str, str] | None = None, branch: str = "main") -> Ran:
        """Run a job for an event on ``branch``."""
        job = self.workflow["jobs"][name]
        context = {"github.event.repository.default_branch": "main", "github.ref_name": branch}
        context |= {f"matrix.{key}": text for key, text in (matrix or {}).items()}
        given = {**self.workflow["env"], **job.get("env", {})}
        variables = {key: _fill(value, context) for key, value in given.items()}
        context |= {f"env.{key}": text for key, text in variables.items()}
        root = self._check_out(job, context)
        (root.parent / "output").write_text("")
        code, output, saves = 0, "", []
        begun = set()
        for step in job["steps"]:
            condition = str(step.get("if", ""))
            needed = re.search(r"steps\.(\w+)\.outcome != 'skipped'", condition)
            if (code != 0 and "cancelled()" not in condition) or (needed and needed[1] not in begun):
                continue
            begun.add(step.get("id"))
            if "uses" in step:
                saves += self._use(step["uses"], step.get("with", {}), root, context)
                continue
            names = {
                "GITHUB_OUTPUT": "output",
                "GITHUB_STEP_SUMMARY": "summary",
                "GITHUB_PATH": "path",
                "RUNNER_TEMP": "",
            }
            files = {name: str(root.parent / file) for name, file in names.items()}
            ran = run_script(self.platform, root, step["run"].splitlines(), variables | files)
            code, output = code or ran.code, output + ran.output
        if code == 0:
            for key, path in saves:
                self.platform.keep(self.platform.caches, key, root, find_paths(root, [path]))
        self.outputs |= dict(line.split("=", 1) for line in (root.parent / "output").read_text().splitlines())
        return Ran(code, output, root)

    def _check_out(self, job: Mapping[str, Any], context: Mapping[str, str]) -> Path:
        """Do the work of actions/checkout, on a fresh machine or on the permanent one."""
        if "self-hosted" not in job["runs-on"]:
            return self.platform.clone()
        options = next(step["with"] for step in job["steps"] if "actions/checkout@" in step.get("uses", ""))
        branch = _fill(options.get("ref", "${{ github.ref_name }}"), context)
        return self.platform.check_out(branch, "-ffdx" if options.get("clean", True) else "")

    def _use(
        self, action: str, options: Mapping[str, Any], root: Path, context: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        """Do the action's work on files; return (key, path) of the files to be cached at the end."""
        values = {key: _fill(value, context) for key, value in options.items()}
        if action.startswith("actions/cache@"):
            if values["key"] in self.platform.caches:
                _copy(self.platform.caches[values["key"]], root)
            return [(values["key"], values["path"])]
        if action.startswith("actions/upload-artifact@"):
            patterns = values["path"].split()
            fixed = [Path(pattern.partition("*")[0]) for pattern in patterns]
            top = root / os.path.commonpath([path.parent if path.suffix else path for path in fixed])
            found = [
                path
                for path in find_paths(root, patterns)
                if options.get("include-hidden-files") or path.name[0] != "."
            ]
            assert found or values.get("if-no-files-found") != "error", patterns
            self.platform.keep(self.platform.artifacts, values["name"], top, found)
        if action.startswith("actions/download-artifact@"):
            wanted = values.get("pattern", values.get("name", ""))
            for name, kept in self.platform.artifacts.items():
                if re.fullmatch(wanted.replace("*", ".*"), name):
                    _copy(kept, root / values["path"])
        return []


class GitLab:
    """The jobs of a GitLab pipeline."""

    def __init__(self, file: Path, platform: Platform) -> None:
        self.pipeline: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.platform = platform

    def run(self, name: str, **given: str) -> Ran:
        """Run a job; a job with tags runs on the permanent machine."""
        job = self.pipeline[name]
        variables = {"CI_DEFAULT_BRANCH": "main", **self.pipeline["variables"], **job.get("variables", {}), **given}
        clean = variables.get("GIT_CLEAN_FLAGS", "-ffdx")
        root = self.platform.check_out("main", clean) if "tags" in job else self.platform.clone()
        key = str(job.get("cache", {}).get("key", "")).replace("$CELL", given.get("CELL", ""))
        if key in self.platform.caches:
            _copy(self.platform.caches[key], root)
        for need in job.get("needs", ()):
            for artifact, kept in self.platform.artifacts.items():
                if artifact.split(" ")[0] == need["job"]:
                    _copy(kept, root)
        lines = [*self.pipeline["default"]["before_script"], *job["script"]]
        ran = run_script(self.platform, root, lines, variables)
        if ran.code == 0:
            if key:
                self.platform.keep(self.platform.caches, key, root, find_paths(root, job["cache"]["paths"]))
            paths = job.get("artifacts", {}).get("paths", ())
            self.platform.keep(self.platform.artifacts, f"{name} {given}", root, find_paths(root, paths))
        return ran
