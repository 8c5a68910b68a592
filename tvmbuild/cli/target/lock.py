"""The command `tvmbuild target lock NAME`: resolve `native` and `from_device` once, into the target's lock."""

from __future__ import annotations

import json
from pathlib import Path

from tvmbuild.base.attributes import Attributes, freeze_attributes
from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.processes import run_module
from tvmbuild.config.load import load_project, load_questions
from tvmbuild.config.mistakes import list_words
from tvmbuild.config.target_lock import Questions, TargetLock, write_lock
from tvmbuild.config.targets import attribute_names
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.targets.table import target_kind

_PROBE = "tvmbuild.devices.local.describe"
_PROBE_ABSENT = 3
_TIMEOUT_S = 300


def lock_target(root: Path, name: str) -> Path:
    """Write the lock of that target and return its path.

    Raises TvmbuildError if there is no target of that name, or if it leaves nothing to resolve.
    """
    questions = load_questions(root)
    if name not in questions:
        near = find_nearest(name, questions)
        hint = f'did you mean "{near}"?' if near else f"targets.yaml has {list_words(questions, 'and')}"
        raise TvmbuildError(f"targets.yaml has no target {name}", hint)
    asked = questions[name]
    if not asked:
        raise TvmbuildError(
            f"the target {name} states all its attributes: there is nothing to lock",
            "a lock resolves `mcpu: native` and `from_device: 0`",
        )
    kind = next(target.kind for target in load_project(root).targets if target.name == name)
    path = Layout(root).target_lock(name)
    write_lock(path, _answer(kind, asked), asked)
    return path


def describe_device(kind: str, index: int) -> Attributes:
    """Ask TVM, in another process, for this machine's device, and return its attributes that targets.yaml may state.

    Raises TvmbuildError if the device does not answer.
    """
    done = run_module(_PROBE, kind, str(index), timeout_s=_TIMEOUT_S)
    if done.returncode == _PROBE_ABSENT:
        missing = target_kind(kind).explain_absence(detect_capabilities())
        raise TvmbuildError(
            f"this machine, or this TVM, has no device {kind}:{index}",
            missing or "`tvmbuild doctor` says what is here; write the device's attributes into targets.yaml otherwise",
        )
    if done.returncode:
        raise RuntimeError(f"{_PROBE} {kind} {index} failed:\n{done.stderr}")
    described = json.loads(done.stdout.splitlines()[-1])
    known = attribute_names(kind)
    return freeze_attributes({key: value for key, value in described.items() if key in known})


def _answer(kind: str, asked: Questions) -> TargetLock:
    attributes: Attributes = FrozenMap()
    host: Attributes = FrozenMap()
    for key, value in asked.items():
        if key == "from_device":
            attributes = describe_device(kind, int(value))
        elif key == "mcpu":
            attributes = describe_device("llvm", 0)
        else:
            host = describe_device("llvm", 0)
    return TargetLock(attributes, host)
