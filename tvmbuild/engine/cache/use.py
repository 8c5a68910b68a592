"""The use of the step cache by a step, before and after its run. No fault of the cache ever fails a step."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json, publish, remove_leftovers
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, BenchmarkStep, TuneStep, has_options
from tvmbuild.devices.table import device_kind
from tvmbuild.engine.cache.entries import (
    DamagedEntry,
    EntryTooLarge,
    find_entries,
    read_entry,
    touch_entry,
    write_entry,
)
from tvmbuild.engine.file_digests import Digest
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.engine.outdated_schedule import find_outdated
from tvmbuild.records.quarantine import find_damage, list_faults
from tvmbuild.records.selection import read_tasks, resolved_target
from tvmbuild.records.store import record_path

MAX_VARIANTS = 16
"""The largest number of entries tried, the last used first. Entries of a tune step differ by the records at their time.
"""

_unreadable: set[Path] = set()
_unwritable: set[Path] = set()
"""The cache folders that could not be read, or written, in this process. They are not used again, so that one warning
is enough.
"""


class _Unwanted(Exception):  # noqa: N818 - no error
    """The error that an entry is sound, but differs from the output that the step would write now."""


@dataclass
class CacheUse:
    """The cache's actions for one step, for the console.

    It travels from doit's workers in the task's ``meta``.
    """

    restored: bool = False
    warnings: list[str] = field(default_factory=list)


def restore_outputs(step: AnyStep, inputs: Mapping[str, Digest], use: CacheUse) -> None:
    """Restore the step's outputs from the cache, if an entry has them: each checked, and all or none.

    ``inputs`` are the digests of all files that the step reads, by role. ``use`` receives the result.
    """
    cache = step.settings.cache
    if cache is None or cache.path in _unreadable or (key := make_key(step, inputs)) is None:
        return
    try:
        entries = find_entries(cache.path, key)
    except OSError as error:
        _unreadable.add(cache.path)
        use.warnings.append(f"the cache {cache.path} cannot be read: {error.strerror}; steps run without it")
        return
    for entry in entries[:MAX_VARIANTS]:
        if _restore(step, entry, use):
            use.restored = True
            touch_entry(entry)
            _write_log(step, entry)
            break


def store_outputs(step: AnyStep, inputs: Mapping[str, Digest], outputs: Mapping[str, Digest], use: CacheUse) -> None:
    """Store the step's outputs in the cache. ``inputs`` and ``outputs`` are digests by role.

    The inputs must still be the same as when the step started. ``use`` receives warnings.
    """
    cache = step.settings.cache
    if cache is None or cache.path in (_unwritable | _unreadable) or (key := make_key(step, inputs)) is None:
        return
    try:
        if step.stage == "tune" and _tells_of_quarantine(step.output("info")):
            return
        files = {role: (path, outputs[role][2]) for role, path in step.outputs.items()}
        write_entry(cache.path, key, files, cache.size)
    except EntryTooLarge:
        use.warnings.append(f"the cache {cache.path} is limited to {cache.size / 1e6:g} MB; larger steps are not kept")
    except OSError as error:
        _unwritable.add(cache.path)
        use.warnings.append(f"the cache {cache.path} cannot be written: {error.strerror}; nothing is added to it")


def _restore(step: AnyStep, entry: Path, use: CacheUse) -> bool:
    try:
        _place(step, entry)
    except FileNotFoundError:
        return False  # removed by another process in the meantime
    except _Unwanted:
        return False
    except DamagedEntry:
        use.warnings.append(f"a damaged entry of the cache is not used: {entry}")
        with contextlib.suppress(OSError):  # if the cache cannot be written, the entry stays and is refused every time
            entry.unlink()
        return False
    except OSError as error:
        use.warnings.append(f"{step.id} could not be restored from the cache: {error.strerror}: {error.filename or ''}")
        return False
    return True


def _place(step: AnyStep, entry: Path) -> None:
    """Publish the entry's outputs as the step's outputs. On any error, no output is published."""
    for path in step.outputs.values():
        remove_leftovers(path)
    with ExitStack() as stack:
        staged = {role: stack.enter_context(publish(path)) for role, path in step.outputs.items()}
        read_entry(entry, staged)
        if not _is_wanted(step, staged):
            raise _Unwanted


def _is_wanted(step: AnyStep, staged: Mapping[str, Path]) -> bool:
    """Return whether the step would write the ``staged`` files now. A tune step also depends on the record files."""
    if not has_options(step, TuneStep):
        return True
    options, candidate = step.options, replace(step, outputs=FrozenMap(staged))
    if find_outdated(candidate) is not None or _tells_of_quarantine(staged["info"]):
        return False
    if step.refuses_uncovered and _read_info(staged["info"])["uncovered"]:
        return False
    # tune.json lists the unusable records of this clone, which only a run finds.
    folder, target = Layout(step.root).records(options.target), canonical_json(resolved_target(options).to_json())
    keys = [task.key for task in read_tasks(staged["tasks"])]
    return not any(find_damage(record_path(folder, key)) or list_faults(folder, key, target) for key in keys)


def _tells_of_quarantine(info: Path) -> bool:
    """Return whether a `tune.json` names quarantined records, which are records of the clone that wrote it."""
    return bool(_read_info(info).get("quarantined"))


def _read_info(info: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(info.read_text(encoding="utf-8"))
    return data


def _write_log(step: AnyStep, entry: Path) -> None:
    """Replace the log of an earlier run by a line about the restoration.

    The log is written in place, because a kill must leave no temporary file beside it.
    """
    log = Layout(step.root).log(step.id)
    with contextlib.suppress(OSError):  # a log must not fail the step
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"restored from the cache: {entry}\n", encoding="utf-8")


# The key of a step's cached outputs: everything that they depend on, but not the project's location.

FORMAT = 1


def make_key(step: AnyStep, inputs: Mapping[str, Digest]) -> str | None:
    """Return the key of the step's cached outputs: 64 hex digits.

    Return None if the outputs are valid only for a device that cannot be distinguished from others. ``inputs`` are the
    digests of all files that the step reads, by role, including external data.
    """
    device = _identify_device(step.options) if has_options(step, BenchmarkStep) else {}
    if device is None:
        return None
    parts = {
        "format": FORMAT,
        "stage": step.stage,
        "fingerprint": fingerprint(step),
        "inputs": {role: sha256 for role, (_, _, sha256) in inputs.items()},
        "device": device,
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def _identify_device(options: BenchmarkStep) -> dict[str, str] | None:
    return device_kind(options.device).identify(options.device, options.kind)
