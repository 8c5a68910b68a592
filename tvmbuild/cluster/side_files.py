"""The side files of a step: records, this clone's notes on them, and the history of benchmarks.

A stage uses them besides its declared inputs and outputs.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.files import write_bytes
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, CompileStep, KeepStep, QuantizeStep, SimplifyStep, TuneStep, has_options
from tvmbuild.benchmarking.history import append_entry, read_entry
from tvmbuild.cluster.parcel import Files, Outcome, read_files, write_files
from tvmbuild.records.merge import merge_branches
from tvmbuild.records.store import DamagedRecordsError, read_task_file, write_task_file
from tvmbuild.records.task_file import TaskFile


def list_places(step: AnyStep) -> tuple[Path, ...]:
    """Return the side files and folders of the step.

    For a search, the records of other targets are included, because a search may start from them.
    """
    layout = Layout(step.root)
    if isinstance(step.options, SimplifyStep | CompileStep):
        return ()
    if has_options(step, QuantizeStep):
        return (layout.kept_folder,) if step.options.quantize.keep else ()
    if has_options(step, KeepStep):
        return (layout.kept_folder,) if step.options.keep.search else ()
    if not has_options(step, TuneStep):
        model, target = step.subject.split("@", 1)
        return (layout.cell_file(model, target, "schedule.json"), layout.history)
    name = step.options.target
    # A journal, or a course, is one file for each Task; its folder is the parent of any Task's path.
    of_tasks = (layout.journal(name, "").parent, layout.course(name, "").parent)
    local = (layout.quarantine(name), layout.verified(name), *of_tasks)
    return (layout.records("" if step.settings.tune != "never" else name), *local)


def read_sent(step: AnyStep) -> dict[str, bytes]:
    """Return the bytes of the side files that travel with the step, by path.

    The history stays here, because a step only adds to it.
    """
    return read_files(step.root, (place for place in list_places(step) if place != Layout(step.root).history))


def compare(step: AnyStep, sent: Files) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the bytes of side files that the step has changed, and the names of those that it has removed.

    ``sent`` are the side files before the run.
    """
    now = read_files(step.root, list_places(step))
    changed = {name: data for name, data in now.items() if sent.get(name) != data}
    return changed, tuple(sorted(sent.keys() - now.keys()))


def take_home(step: AnyStep, sent: Files, outcome: Outcome) -> None:
    """Write the side files that the step has changed into the project.

    If another step has changed a record file in the meantime, the changes of both count.
    """
    for name, data in outcome.changed.items():
        path = step.root / name
        if path == Layout(step.root).history:
            _append(path, data)
        elif path.parent.parent == Layout(step.root).records("") and _read(path) not in {sent.get(name), data}:
            _unite_records(path, sent.get(name), data)
        else:
            write_bytes(path, data)  # the later of two memories, or of two measured choices, is as good
    for name in outcome.removed:
        if _read(step.root / name) == sent[name]:
            (step.root / name).unlink()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _append(path: Path, data: bytes) -> None:
    for line in data.splitlines():
        entry = read_entry(line)
        if entry is not None:
            append_entry(path, entry)


def _unite_records(path: Path, before: bytes | None, data: bytes) -> None:
    """Merge the bytes of a record file into the file at ``path``, as git merges two branches.

    ``before`` are the bytes before both changes. A damaged file counts as absent.
    """
    with TemporaryDirectory(prefix="tvmbuild-merge-") as folder:
        write_files(Path(folder), {f"theirs/{path.name}": data} | ({f"before/{path.name}": before} if before else {}))
        theirs, ancestor = (_read_sound(Path(folder, side, path.name)) for side in ("theirs", "before"))
    ours = _read_sound(path)
    if theirs is not None:
        write_task_file(path, theirs if ours is None else merge_branches(ancestor, ours, theirs))


def _read_sound(path: Path) -> TaskFile | None:
    try:
        return read_task_file(path)
    except DamagedRecordsError:
        return None
