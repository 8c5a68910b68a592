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
"""The name of the lock file in the build folder. One doit at a time holds the lock."""


@dataclass(frozen=True)
class Layout:
    """The paths of one project. ``root`` is the folder of models.yaml. No method touches the disk."""

    root: Path

    @property
    def build(self) -> Path:
        """Return the folder of all files that can be made again. git ignores it."""
        return self.root / "build"

    @property
    def state(self) -> Path:
        """Return the folder of doit's state, which has one file for each step."""
        return self.build / ".state"

    def digests(self, step_id: str) -> Path:
        """Return the file with the SHA-256 of each of a step's files, and the file's identity when it was hashed."""
        return self.build / ".digests" / f"{step_id.replace(':', '.')}.json"

    def log(self, step_id: str) -> Path:
        """Return the file with the complete output of a step's last run."""
        return self.build / "logs" / f"{step_id.replace(':', '.')}.log"

    def failure(self, step_id: str) -> Path:
        """Return the JSON file with the reason why a step's last run failed. It is absent after a success."""
        return self.build / "logs" / f"{step_id.replace(':', '.')}.failed.json"

    def model_file(self, model: str, name: str) -> Path:
        """Return a file of the model in the build folder, for example model.onnx, reference.npz or simplify.json."""
        return self.build / "models" / model / name

    def validated(self, model: str, digest: str) -> Path:
        """Return the file with the errors that validation computed for a lowered form of the model, by its digest."""
        return self.build / "models" / model / "validated" / f"{digest}.json"

    def cell_file(self, model: str, target: str, name: str) -> Path:
        """Return a file of one cell in the build folder: tasks.json, schedule.json, tune.json or result.json."""
        return self.build / "cells" / f"{model}@{target}" / name

    def sizes(self, folder: Path) -> Path:
        """Return the folder with the files of a model's or cell's sizes, except the largest: a folder for each."""
        return folder / "sizes"

    def parts(self, package: Path) -> Path:
        """Return the folder of the functions of a package's sizes, so that a new size compiles only its own."""
        return package.parent / "parts"

    def package(self, model: str, target: str) -> Path:
        """Return the package of a cell, a tar archive."""
        return self.cell_file(model, target, f"{model}-{target}.tar")

    def debug(self, cell: str) -> Path:
        """Return the folder with the findings of `tvmbuild debug` about a cell."""
        return self.build / "debug" / cell

    @property
    def report_markdown(self) -> Path:
        """Return the report in Markdown, for people and git hosts."""
        return self.build / "report.md"

    @property
    def report_html(self) -> Path:
        """Return the report in HTML, one self-contained file."""
        return self.build / "report.html"

    @property
    def history(self) -> Path:
        """Return the file with one line for each benchmark, the newest last."""
        return self.build / "history.jsonl"

    def records(self, target: str) -> Path:
        """Return the folder of the target's records, which has one JSON file for each Task."""
        return self.root / "records" / target

    def kept(self, precision: str, key: str) -> Path:
        """Return the file with the operators that stay in floats, by the digest of all that the search depends on."""
        return self.kept_folder / precision / f"{key}.json"

    @property
    def kept_folder(self) -> Path:
        """Return the folder of all such files."""
        return self.records("kept")

    def quarantine(self, target: str) -> Path:
        """Return the folder of the faults that this clone found in the target's records, one JSON file per Task."""
        return self.build / "quarantine" / target

    def verified(self, target: str) -> Path:
        """Return the folder of the traces that this clone has replayed on the target, one JSON file for each Task."""
        return self.build / "verified" / target

    def journal(self, target: str, key: str) -> Path:
        """Return the file with the measurements of the Task's unfinished search. A finished search has none."""
        return self.journals / target / f"{key}.jsonl"

    @property
    def journals(self) -> Path:
        """Return the folder of all journals, which has one folder for each target."""
        return self.build / "journal"

    def course(self, target: str, key: str) -> Path:
        """Return the file with the Task's best time over the measured candidates, in the searches of this clone."""
        return self.build / "courses" / target / f"{key}.json"

    @property
    def peaks(self) -> Path:
        """Return the file with the measured peak rates of machines, in GFLOP/s and GB/s."""
        return self.build / "peaks.json"

    @property
    def tuning_rates(self) -> Path:
        """Return the file with the durations of searches on this machine."""
        return self.build / "tuning-rates.json"

    def target_lock(self, target: str) -> Path:
        """Return the lock of the target: the file with the attributes that replace `native` and `from_device`."""
        return self.records(target) / "target.lock.json"


def choices_folder(records: Path) -> Path:
    """Return `records/<target>/choices`, the folder with one JSON file of measured choices for each graph."""
    return records / "choices"


def layout_of_records(folder: Path) -> Layout:
    """Return the layout of the project that owns the folder `records/<target>`."""
    return Layout(folder.parent.parent)


def cache_dir() -> Path:
    """Return the user's cache folder: downloads, probes, the linker's own cache. It is safe to delete."""
    ensure_home()
    return Path(platformdirs.user_cache_dir("tvmbuild"))


def ensure_home() -> None:
    """Set HOME to a folder, for this process and its children, if the user has no home.

    TVM cannot be imported without one. For example, `docker run --user 1000` leaves HOME unset, and /etc/passwd has no
    entry for that user.
    """
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(runtime_dir() / "home")  # no other user can write there


def compile_dir() -> Path:
    """Return the folder in which `tvmbuild compile` keeps its projects, each in its own folder."""
    return cache_dir() / "compile"


def downloads_dir() -> Path:
    """Return the folder of downloaded sources. Each file is named by its SHA-256."""
    return cache_dir() / "downloads"


def runtime_dir() -> Path:
    """Return the user's folder of device locks, which all clones on this machine share."""
    with warnings.catch_warnings():  # without a login session it is in the temporary folder, which is good enough
        warnings.simplefilter("ignore")
        return Path(platformdirs.user_runtime_dir("tvmbuild"))
