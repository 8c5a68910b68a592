"""What doit calls: module functions that take a Step, so that every kind of doit's workers can run them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from doit.exceptions import TaskFailed
from doit.task import Task

from tvmbuild.doit_adapter.elsewhere import execute
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.engine.cache.use import restore_outputs, store_outputs
from tvmbuild.engine.fingerprint import Digest, digest_file, fingerprint, is_same_file
from tvmbuild.engine.lock import hold_project_lock
from tvmbuild.engine.process import remove_temporaries
from tvmbuild.errors import TvmbuildError
from tvmbuild.external_data import list_external_data
from tvmbuild.files import write_json
from tvmbuild.layout import Layout
from tvmbuild.python_imports import list_local_imports
from tvmbuild.steps import AnyStep

RECORD = "tvmbuild"
"""Key of what we keep among a task's values in doit's state."""
CACHE = "cache"
"""Key, among a task's metadata, of what the step cache did for it."""
EXTERNAL = "external data "
"""Role, before its path beside the source, of a file that the source names."""
IMPORTED = "imported "
"""Role, before its path beside the export's script, of a file of the project that the script imports."""


def run_step(step: AnyStep, task: Task) -> TaskFailed | None:
    """Run the step; leave in doit's ``task`` what its up-to-date check compares next time."""
    try:
        paths = _locate_inputs(step)
        inputs = {role: digest_file(path) for role, path in paths.items()}
        use = restore_outputs(step, inputs)
        task.meta = {CACHE: use}  # not among the values, which are the state: it is as if the step had run
        if not use.restored:
            execute(step, paths.values())
        outputs = {role: digest_file(path) for role, path in step.outputs.items()}
    except OSError as error:
        if error.filename is None:
            raise
        said = TvmbuildError(f"{error.filename} cannot be read: {error.strerror}", "Make it readable.")
        write_failure(step, said, ran=True)
        return TaskFailed(str(said))
    except TvmbuildError as error:
        write_failure(step, error, ran=True)
        return TaskFailed(str(error))
    if not use.restored and _are_unchanged(step, inputs):
        store_outputs(step, inputs, outputs, use)
    clear_failure(step)
    # Not returned: doit would keep it twice, as the task's values and as its result.
    task.values[RECORD] = {"fingerprint": fingerprint(step), "inputs": inputs, "outputs": outputs}
    return None


def _locate_inputs(step: AnyStep) -> dict[str, Path]:
    """Return role → file, those too that only the source names: weights beside it, modules that its script imports."""
    inputs = dict(step.inputs)
    source, script = inputs.get("source"), inputs.get("export")
    if source is not None:
        return inputs | {EXTERNAL + name: source.parent / name for name in list_external_data(source)}
    if script is not None:
        return inputs | {IMPORTED + str(path.relative_to(script.parent)): path for path in list_local_imports(script)}
    return inputs


def _are_unchanged(step: AnyStep, inputs: Mapping[str, Digest]) -> bool:
    """Say whether the step read what was digested before it started: a file may be edited while it runs."""
    try:
        paths = _locate_inputs(step)
        return paths.keys() == inputs.keys() and all(is_same_file(paths[role], inputs[role]) for role in inputs)
    except (OSError, TvmbuildError):
        return False


def refuse_step(step: AnyStep) -> TaskFailed:
    """Fail: `strict=1` and the step cannot run here."""
    error = TvmbuildError(f"unavailable: {step.unavailable}", "strict=1 turns what is unavailable into an error.")
    write_failure(step, error, ran=False)
    return TaskFailed(str(error))


def clean_step(step: AnyStep, dryrun: bool) -> None:
    """Remove the step's outputs, its log and its failure; records are no outputs and stay. doit passes ``dryrun``."""
    try:
        _clean(step, dryrun)
    except TvmbuildError as error:
        raise end_run(error) from error
    except OSError as error:
        message = f"cannot remove {error.filename}: {error.strerror}"
        raise end_run(TvmbuildError(message, "Make the build folder writable.")) from error


def _clean(step: AnyStep, dryrun: bool) -> None:
    layout = Layout(step.root)
    if not dryrun:
        hold_project_lock(layout.build)
        remove_temporaries(step)
    for path in (*step.outputs.values(), layout.log(step.id), layout.failure(step.id)):
        if path.exists():
            print(f"{step.id} - removing file '{_relative(path, step.root)}'")
            if not dryrun:
                path.unlink()
                _remove_empty(path.parent, layout.build)


def write_reports(root: Path, steps: Sequence[AnyStep]) -> None:
    """Write the report from the files on disk; a file that would not change is left alone."""
    from tvmbuild.stages.report import write_report  # noqa: PLC0415 - only a run pays for it

    write_report(root, steps)


def write_failure(step: AnyStep, error: TvmbuildError, *, ran: bool) -> None:
    """Keep why the step failed, for the report; ``ran``: the step itself ran, so its state is not to be trusted."""
    layout = Layout(step.root)
    hint = (error.hint or "").removesuffix(f"Log: {layout.log(step.id)}").strip()
    failure = {
        "message": error.message,
        "hint": hint or None,  # the terminal's ends with the log's absolute path, which is no matter of a report
        "log": _relative(layout.log(step.id), step.root),
        "ran": ran,
    }
    with contextlib.suppress(OSError):  # a full disk: doit shows the message, the report cannot
        write_json(layout.failure(step.id), failure)


def clear_failure(step: AnyStep) -> None:
    """Remove the failure of an earlier run."""
    Layout(step.root).failure(step.id).unlink(missing_ok=True)


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root))


def _remove_empty(folder: Path, build: Path) -> None:
    with contextlib.suppress(OSError):  # not empty
        while folder != build:
            folder.rmdir()
            folder = folder.parent
