"""All paths that tvmbuild reads or writes."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import platformdirs

MODELS_YAML = "models.yaml"
TARGETS_YAML = "targets.yaml"
LOCK_NAME = ".lock"
"""The lock file in the build folder, which one doit at a time holds."""


@dataclass(frozen=True)
class Layout:
    """The paths of one project. ``root`` is the folder of models.yaml. The class does not touch the disk."""

    root: Path

    @property
    def build(self) -> Path:
        """Return the git-ignored folder of all files that can be made again."""
        return self.root / "build"

    @property
    def state(self) -> Path:
        """Return the folder of doit's state: one file a step."""
        return self.build / ".state"

    def digests(self, step_id: str) -> Path:
        """Return the file that records the identity of a step's files when they were hashed."""
        return self.build / ".digests" / f"{step_id.replace(':', '.')}.json"

    def log(self, step_id: str) -> Path:
        """Return the file with all output of a step's last run."""
        return self.build / "logs" / f"{step_id.replace(':', '.')}.log"

    def failure(self, step_id: str) -> Path:
        """Return the JSON file with the reason why a step's last run failed. It is absent after a success."""
        return self.build / "logs" / f"{step_id.replace(':', '.')}.failed.json"

    def model_file(self, model: str, name: str) -> Path:
        """Return a file of simplify:M (model.onnx, reference.npz, simplify.json)."""
        return self.build / "models" / model / name

    def validated(self, model: str, digest: str) -> Path:
        """Return the file with the computed errors of a lowering of the model."""
        return self.build / "models" / model / "validated" / f"{digest}.json"

    def cell_file(self, model: str, target: str, name: str) -> Path:
        """Return a file of one cell (tasks.json, schedule.json, tune.json, result.json)."""
        return self.build / "cells" / f"{model}@{target}" / name

    def package(self, model: str, target: str) -> Path:
        """Return the archive that a cell ships."""
        return self.cell_file(model, target, f"{model}-{target}.tar")

    @property
    def report_markdown(self) -> Path:
        """Return the matrix, for people and git hosts."""
        return self.build / "report.md"

    @property
    def report_html(self) -> Path:
        """Return the matrix, self-contained, with the chart."""
        return self.build / "report.html"

    @property
    def history(self) -> Path:
        """Return the file with one line for each benchmark, the newest last."""
        return self.build / "history.jsonl"

    def records(self, target: str) -> Path:
        """Return the folder of the target's records: one JSON file a Task."""
        return self.root / "records" / target

    def quarantine(self, target: str) -> Path:
        """Return the folder of the errors that this clone found in the target's records: one JSON file a Task."""
        return self.build / "quarantine" / target

    def verified(self, target: str) -> Path:
        """Return the folder with the traces that this clone has seen replay on the target: one JSON file a Task."""
        return self.build / "verified" / target

    def journal(self, target: str, key: str) -> Path:
        """Return the file with the measurements of an unfinished search of that Task. Otherwise the file is absent."""
        return self.journals / target / f"{key}.jsonl"

    @property
    def journals(self) -> Path:
        """Return the folder of all journals, a folder a target."""
        return self.build / "journal"

    def course(self, target: str, key: str) -> Path:
        """Return the file with the course of that Task's best time in the searches of this clone."""
        return self.build / "courses" / target / f"{key}.json"

    @property
    def peaks(self) -> Path:
        """Return the file with the measured peak rates of machines."""
        return self.build / "peaks.json"

    @property
    def tuning_rates(self) -> Path:
        """Return the file with the durations of searches on this machine."""
        return self.build / "tuning-rates.json"

    def target_lock(self, target: str) -> Path:
        """Return the file with the resolved attributes of `native` and `from_device`."""
        return self.records(target) / "target.lock.json"


def choices_folder(records: Path) -> Path:
    """Return `records/<target>/choices`: one JSON file per graph with the measured choices."""
    return records / "choices"


def layout_of_records(folder: Path) -> Layout:
    """Return the layout of the project that owns the folder `records/<target>`."""
    return Layout(folder.parent.parent)


def cache_dir() -> Path:
    """Return the per-user cache: downloads, probes, the linker's own cache. It is safe to delete."""
    ensure_home()
    return Path(platformdirs.user_cache_dir("tvmbuild"))


def ensure_home() -> None:
    """Give this process and its children a home if they have none, because TVM cannot be imported without one.

    `docker run --user 1000` makes such a user: HOME is unset, and /etc/passwd does not know the number.
    """
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(runtime_dir() / "home")  # no other user can write there


def compile_dir() -> Path:
    """Return the folder of `tvmbuild compile`'s projects, one folder each."""
    return cache_dir() / "compile"


def downloads_dir() -> Path:
    """Return the folder of downloaded sources, each under its SHA-256."""
    return cache_dir() / "downloads"


def runtime_dir() -> Path:
    """Return the per-user folder of device locks, shared by all clones on this machine."""
    with warnings.catch_warnings():  # without a login session it is in the temporary folder, which is good enough
        warnings.simplefilter("ignore")
        return Path(platformdirs.user_runtime_dir("tvmbuild"))
