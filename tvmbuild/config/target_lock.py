"""The lock of a target: the values of `native` and `from_device`, and the machine that gave them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.attributes import Attributes, freeze_attributes
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap

FORMAT = 1

Questions = FrozenMap[str, str | int]
"""The settings that a target leaves to its lock, by name: from_device, mcpu, host.mcpu.

An example is {"mcpu": "native"}.
"""


@dataclass(frozen=True)
class TargetLock:
    """The resolved attributes of a target and of its host, in the form of TargetSpec."""

    attributes: Attributes = FrozenMap()
    host: Attributes = FrozenMap()


def read_lock(path: Path, name: str, asked: Questions) -> tuple[TargetLock, str | None]:
    """Return the lock and None, or an empty lock and the reason why the target cannot be used, with the remedy.

    A lock that was made for other settings than ``asked`` is not used.
    """
    remedy = f"run `tvmbuild target lock {name}` on the machine that has it"
    words = " and ".join(f"{key}: {value}" for key, value in asked.items())
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return TargetLock(), f"{path.name} of {name} has another format: {remedy}"
        if data["asked"] != asked:
            return TargetLock(), f"{path.name} of {name} does not answer {words}: {remedy}"
        return TargetLock(_attributes(data["attributes"]), _attributes(data["host"])), None
    except FileNotFoundError:
        return TargetLock(), f"{words} is not resolved yet: {remedy}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return TargetLock(), f"{path.name} of {name} is damaged: {remedy}"


def write_lock(path: Path, lock: TargetLock, asked: Questions) -> None:
    """Write the lock to ``path``, with the settings ``asked`` that it answers."""
    value = {"format": FORMAT, "asked": asked, "attributes": lock.attributes, "host": lock.host}
    write_json(path, value)


def _attributes(data: dict[str, Any]) -> Attributes:
    return freeze_attributes(data)
