"""Every path that tvmbuild reads or writes, in one place."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import platformdirs

MODELS_YAML = "models.yaml"
TARGETS_YAML = "targets.yaml"
LOCK_NAME = ".lock"
"""In the build folder: what one doit at a time holds."""


@dataclass(frozen=True)
class Layout:
    """Paths of one project. ``root`` is the folder of models.yaml; nothing here touches the disk."""

    root: Path

    @property
    def build(self) -> Path:
        """Return the git-ignored folder of everything that can be made again."""
        return self.root / "build"

    @property
    def state(self) -> Path:
        """Return the folder of doit's state: one file a step."""
        return self.build / ".state"

    def digests(self, step_id: str) -> Path:
        """Return the file that says what a step's files were when they were hashed."""
        return self.build / ".digests" / f"{step_id.replace(':', '.')}.json"

    def log(self, step_id: str) -> Path:
        """Return the file with everything that a step printed the last time it ran."""
        return self.build / "logs" / f"{step_id.replace(':', '.')}.log"

    def failure(self, step_id: str) -> Path:
        """Return the file that says why a step failed the last time it ran (JSON); absent when it did not."""
        return self.build / "logs" / f"{step_id.replace(':', '.')}.failed.json"

    def model_file(self, model: str, name: str) -> Path:
        """Return a file of simplify:M (model.onnx, reference.npz, simplify.json)."""
        return self.build / "models" / model / name

    def validated(self, model: str, digest: str) -> Path:
        """Return the file that says how right a lowering of the model was, when it was computed."""
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
        """Return the folder with what this clone found wrong with the target's records: one JSON file a Task."""
        return self.build / "quarantine" / target

    def verified(self, target: str) -> Path:
        """Return the folder with the traces that this clone has seen replay on the target: one JSON file a Task."""
        return self.build / "verified" / target

    def journal(self, target: str, key: str) -> Path:
        """Return the file with the measurements of a search of that Task that is not over; else it is absent."""
        return self.journals / target / f"{key}.jsonl"

    @property
    def journals(self) -> Path:
        """Return the folder of all of them, a folder a target."""
        return self.build / "journal"

    def course(self, target: str, key: str) -> Path:
        """Return the file that says how the best time of that Task came down in the searches of this clone."""
        return self.build / "courses" / target / f"{key}.json"

    @property
    def peaks(self) -> Path:
        """Return the file with what machines can do at the most, where that was measured."""
        return self.build / "peaks.json"

    @property
    def tuning_rates(self) -> Path:
        """Return the file that says how long searches took on this machine."""
        return self.build / "tuning-rates.json"

    def target_lock(self, target: str) -> Path:
        """Return the file with what `native` and `from_device` resolved to."""
        return self.records(target) / "target.lock.json"


def choices_folder(records: Path) -> Path:
    """Return the folder, below `records/<target>`, of the target's measured choices: one JSON file a graph."""
    return records / "choices"


def layout_of_records(folder: Path) -> Layout:
    """Return the layout of the project that the folder `records/<target>` belongs to."""
    return Layout(folder.parent.parent)


def cache_dir() -> Path:
    """Return the per-user cache: downloads, probes, the linker's own cache. Safe to delete."""
    ensure_home()
    return Path(platformdirs.user_cache_dir("tvmbuild"))


def ensure_home() -> None:
    """Give this process and its children a home where there is none: TVM cannot be imported without.

    `docker run --user 1000` makes such a user: HOME is unset, and /etc/passwd does not know the number.
    """
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(runtime_dir() / "home")  # where no other user can write


def compile_dir() -> Path:
    """Return where `tvmbuild compile` keeps its projects, one folder each."""
    return cache_dir() / "compile"


def downloads_dir() -> Path:
    """Return where downloaded sources lie under their SHA-256."""
    return cache_dir() / "downloads"


def runtime_dir() -> Path:
    """Return the per-user folder of device locks, shared by all clones on this machine."""
    with warnings.catch_warnings():  # without a login session it lies in the temporary folder, which is good enough
        warnings.simplefilter("ignore")
        return Path(platformdirs.user_runtime_dir("tvmbuild"))
