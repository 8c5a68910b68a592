"""Two record files of one Task made one: a set union, whatever the order. Pure; no tvm here."""

from __future__ import annotations

import re
from typing import TypeVar

from tvmbuild.errors import TvmbuildError
from tvmbuild.records.store import TaskFile, keep_best

_Number = TypeVar("_Number", int, float)


def merge_files(ours: TaskFile, theirs: TaskFile) -> TaskFile:
    """Return the union: per device class the best distinct traces, the lower time of a trace that both have.

    ``searched``, ``settled`` and ``spent`` are the greater of both: the measurements of a common past count once.
    Commutative, associative and idempotent. Files of different Tasks or target attributes raise TvmbuildError.
    """
    if ours.key != theirs.key:
        raise TvmbuildError(f"records of two Tasks, {ours.key} and {theirs.key}, are not one", "merge equal keys only")
    if ours.target != theirs.target:
        raise TvmbuildError(
            f"the records of Task {ours.key} ({ours.name}) were made for different targets: "
            f"{ours.target} and {theirs.target}",
            "times for different attributes are not compared: keep the file that fits targets.yaml",
        )
    newer = max(ours, theirs, key=_version_order)
    return TaskFile(
        key=ours.key,
        name=newer.name,
        workload=newer.workload,
        target=ours.target,
        tvm=newer.tvm,
        records=keep_best((*ours.records, *theirs.records)),
        searched=_greater(ours.searched, theirs.searched),
        exhausted=tuple(sorted({*ours.exhausted, *theirs.exhausted})),
        settled=_greater(ours.settled, theirs.settled),
        spent=_greater(ours.spent, theirs.spent),
    )


def merge_branches(ancestor: TaskFile | None, ours: TaskFile, theirs: TaskFile) -> TaskFile:
    """Return what a git merge makes of both branches' files; ``ancestor`` is None when both added it.

    Where one branch alone made the records anew for other target attributes, its file is taken as it is.
    """
    if ancestor is not None and ours.key == theirs.key == ancestor.key and ours.target != theirs.target:
        if ours.target == ancestor.target:
            return theirs
        if theirs.target == ancestor.target:
            return ours
    return merge_files(ours, theirs)


def _version_order(file: TaskFile) -> tuple[tuple[int, ...], str, str, str]:
    """Order by TVM's version, then by all that the file says of its Task, so that no order of merging matters."""
    return (tuple(map(int, re.findall(r"\d+", file.tvm))), file.tvm, file.workload, file.name)


def _greater(
    ours: tuple[tuple[str, _Number], ...], theirs: tuple[tuple[str, _Number], ...]
) -> tuple[tuple[str, _Number], ...]:
    merged = dict(ours)
    for device_class, value in theirs:
        merged[device_class] = max(value, merged.get(device_class, value))
    return tuple(sorted(merged.items()))
