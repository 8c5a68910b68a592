"""The run of a step or its restoration from the step cache, and the removal of its outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, BenchmarkStep, has_options
from tvmbuild.engine.cache.use import CacheUse, restore_outputs, store_outputs
from tvmbuild.engine.executor import Executor
from tvmbuild.engine.failure import clear_failure, write_failure
from tvmbuild.engine.file_digests import Digest, FileDigests
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.engine.process import remove_temporaries
from tvmbuild.engine.project_lock import hold_project_lock
from tvmbuild.engine.step_inputs import locate_inputs
from tvmbuild.engine.success import Success
from tvmbuild.errors import TvmbuildError


def run_step(step: AnyStep, executor: Executor, use: CacheUse) -> Success | TvmbuildError:
    """Run the step or restore its outputs from the cache. Return its success, or the error of its failure.

    A failure is also recorded for the next run and the report. ``use`` receives the actions and warnings of the step
    cache, however the run ends.
    """
    digests = FileDigests(step)
    try:
        paths = locate_inputs(step)
        inputs = {role: digests.digest(path) for role, path in paths.items()}
        if _is_shared(step, executor):
            restore_outputs(step, inputs, use)
        if not use.restored:
            executor.run(step, paths.values())
        outputs = {role: digests.digest(path) for role, path in step.outputs.items()}
    except OSError as error:
        if error.filename is None:
            raise
        said = TvmbuildError(f"{error.filename} cannot be read: {error.strerror}", "Make it readable.")
        write_failure(step, said, ran=True)
        return said
    except TvmbuildError as error:
        write_failure(step, error, ran=True)
        return error
    if not use.restored and _is_shared(step, executor) and _are_unchanged(step, inputs, digests):
        store_outputs(step, inputs, outputs, use)
    digests.save()
    clear_failure(step)
    return Success(fingerprint(step), inputs, outputs)


def clean_step(step: AnyStep, *, dry_run: bool) -> None:
    """Remove the step's outputs, its log and the note of its failure, and print their names.

    Records are not outputs and stay. With ``dry_run`` nothing is removed. Raises TvmbuildError if a file cannot be
    removed.
    """
    try:
        _clean(step, dry_run=dry_run)
    except OSError as error:
        message = f"cannot remove {error.filename}: {error.strerror}"
        raise TvmbuildError(message, "Make the build folder writable.") from error


def _is_shared(step: AnyStep, executor: Executor) -> bool:
    """Return whether the step may use the step cache.

    The latency of another machine is valid for that machine only, so a benchmark there is not shared.
    """
    return executor.is_here or not has_options(step, BenchmarkStep)


def _are_unchanged(step: AnyStep, inputs: Mapping[str, Digest], digests: FileDigests) -> bool:
    """Return whether the inputs still have the digests from before the run, because a file may be edited meanwhile."""
    try:
        paths = locate_inputs(step)
        return paths.keys() == inputs.keys() and all(digests.is_same(paths[role], inputs[role]) for role in inputs)
    except (OSError, TvmbuildError):
        return False


def _clean(step: AnyStep, *, dry_run: bool) -> None:
    layout = Layout(step.root)
    if not dry_run:
        hold_project_lock(layout.build)
        remove_temporaries(step)
    for path in (*step.outputs.values(), layout.log(step.id), layout.failure(step.id)):
        if path.exists():
            print(f"{step.id} - removing file '{path.relative_to(step.root)}'")
            if not dry_run:
                path.unlink()
                _remove_empty(path.parent, layout.build)


def _remove_empty(folder: Path, build: Path) -> None:
    with contextlib.suppress(OSError):  # not empty
        while folder != build:
            folder.rmdir()
            folder = folder.parent
