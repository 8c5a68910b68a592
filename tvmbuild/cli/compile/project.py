"""The project that `tvmbuild compile` builds: both YAML files and dodo.py, in a folder of the user's cache."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tvmbuild.base.files import write_text
from tvmbuild.base.layout import LOCK_NAME, MODELS_YAML, TARGETS_YAML, Layout, compile_dir
from tvmbuild.cli.compile.model_words import ModelWords
from tvmbuild.cli.compile.target_words import TargetWords
from tvmbuild.engine.project_lock import hold_project_lock
from tvmbuild.errors import TvmbuildError

DODO = """\
from tvmbuild.doit_adapter.loader import load_doit_file

DOIT_CONFIG, task_steps = load_doit_file(__file__)
"""
OLD_S = 30 * 24 * 3600.0
"""The time without use, in seconds, after which a project's folder is removed."""
_NUMBER_LIKE = re.compile(r"[-+.0-9]")


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that quotes every text that may look like a number.

    The files are read as YAML 1.2, in which some words are numbers that are text in PyYAML's YAML 1.1.
    """


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _NUMBER_LIKE.match(text) else None)


_Dumper.add_representer(str, _represent_text)


def models_text(model: ModelWords, folder: Path) -> str:
    """Return the text of a models.yaml in ``folder`` with that model only."""
    return _dump({"models": {model.name: model.data_in(folder)}})


def targets_text(target: TargetWords) -> str:
    """Return the text of a targets.yaml with that target only."""
    return _dump({"targets": {target.name: target.data}})


def open_project(model: ModelWords, target: TargetWords, records: Path | None) -> Path:
    """Write the project of that model and target and return its folder, locked until this process ends.

    The folder is the same each time, so that only changes are built again. ``records`` is the folder of its records, or
    None for a folder in the project. Raises TvmbuildError if the project cannot be written.
    """
    parts = (str(model.path), target.name, str(records))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    root = compile_dir().resolve() / f"{model.name}-{target.name}-{digest}"
    hold_project_lock(Layout(root).build)
    _remove_old(root)
    files = {MODELS_YAML: models_text(model, root), TARGETS_YAML: targets_text(target), "dodo.py": DODO}
    try:
        for name, text in files.items():
            write_text(root / name, text)
        if records is not None:
            _link(root / "records", records)
    except OSError as error:
        raise TvmbuildError(
            f"cannot write to {root}: {error.strerror}", "Make room, or set XDG_CACHE_HOME to another folder."
        ) from error
    return root


def _link(link: Path, folder: Path) -> None:
    if not link.is_symlink():
        link.symlink_to(folder)


def _dump(data: Mapping[str, Any]) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)


def _remove_old(kept: Path) -> None:
    """Remove the projects beside ``kept`` that are not in use and have not been used for a month."""
    for root in kept.parent.iterdir():
        with contextlib.suppress(OSError):
            if root != kept and (root / MODELS_YAML).stat().st_mtime < time.time() - OLD_S and not _is_in_use(root):
                shutil.rmtree(root)


def _is_in_use(root: Path) -> bool:
    descriptor = os.open(Layout(root).build / LOCK_NAME, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
