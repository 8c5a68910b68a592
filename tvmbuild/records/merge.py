"""The merge of two record files of one Task: a set union, independent of the order. This module imports no tvm."""

from __future__ import annotations

import re

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.block_names import records_for
from tvmbuild.records.task_file import TaskFile, keep_best

IMPORTED = "imported"
"""The name of a Task whose records were imported from a MetaSchedule database, which has no names."""


def merge_files(ours: TaskFile, theirs: TaskFile) -> TaskFile:
    """Return the union of both files: for each device class the best distinct traces, each with its lower time.

    ``searched``, ``settled`` and ``rules`` are the greater of both values, so that measurements of a common past count
    once. ``spent`` comes from the file that searched more, even if it is unknown there, because it is the time of the
    candidates that ``searched`` counts. The merge is commutative, associative and idempotent. Raises TvmbuildError for
    files of different Tasks or target attributes.
    """
    if ours.key != theirs.key:
        raise TvmbuildError(f"records of two Tasks, {ours.key} and {theirs.key}, are not one", "merge equal keys only")
    if ours.code != theirs.code:
        raise TvmbuildError(
            f"the records of Task {ours.key} ({ours.name}) were made for different targets: "
            f"{ours.target} and {theirs.target}",
            "times for different attributes are not compared: keep the file that fits targets.yaml",
        )
    newer = max(ours, theirs, key=_version_order)
    return TaskFile(
        key=ours.key,
        name=max(ours.name, theirs.name, key=lambda name: (name != IMPORTED, name)),
        workload=newer.workload,
        target=min(ours.target, theirs.target),
        tvm=newer.tvm,
        records=keep_best((*records_for(newer.workload, ours), *records_for(newer.workload, theirs))),
        searched=_greater(ours.searched, theirs.searched),
        exhausted=tuple(sorted({*ours.exhausted, *theirs.exhausted})),
        settled=_greater(ours.settled, theirs.settled),
        rules=_greater(ours.rules, theirs.rules),
        spent=_merge_spent(ours, theirs),
    )


def merge_branches(ancestor: TaskFile | None, ours: TaskFile, theirs: TaskFile) -> TaskFile:
    """Return the merge of the files of two git branches. ``ancestor`` is None if both branches added the file.

    If only one branch made the records again for other target attributes, its file is returned as it is. Otherwise the
    files are merged as by `merge_files`, with the same errors.
    """
    if ancestor is not None and ours.key == theirs.key == ancestor.key and ours.code != theirs.code:
        if ours.code == ancestor.code:
            return theirs
        if theirs.code == ancestor.code:
            return ours
    return merge_files(ours, theirs)


def _version_order(file: TaskFile) -> tuple[tuple[int, ...], str, str]:
    """Return a sort key, TVM's version and then the workload, so that the order of merging does not matter."""
    return (tuple(map(int, re.findall(r"\d{1,18}", file.tvm))), file.tvm, file.workload)


def _merge_spent(ours: TaskFile, theirs: TaskFile) -> FrozenMap[str, float]:
    unknown = -1.0
    spent = {
        name: max((file.searched_on(name), file.spent.get(name, unknown)) for file in (ours, theirs))[1]
        for name in ours.spent.keys() | theirs.spent.keys()
    }
    return FrozenMap(sorted((name, seconds) for name, seconds in spent.items() if seconds != unknown))


def _greater(ours: FrozenMap[str, int], theirs: FrozenMap[str, int]) -> FrozenMap[str, int]:
    both = ours.keys() | theirs.keys()
    return FrozenMap({name: max(each[name] for each in (ours, theirs) if name in each) for name in sorted(both)})
