"""The note of a step's failure, for the report and for the next run, which tries the step again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep
from tvmbuild.errors import TvmbuildError, VerdictError


def write_failure(step: AnyStep, error: TvmbuildError, *, ran: bool) -> None:
    """Write the reason for the step's failure to its file, for the report and the next run.

    ``ran`` means that the step itself has run, so that its state is not trusted and it must run again.
    """
    layout = Layout(step.root)
    hint = (error.hint or "").removesuffix(f"Log: {layout.log(step.id)}").strip()
    failure = {
        "message": error.message,
        "hint": hint or None,  # the terminal's hint ends with the log's absolute path, which the report does not need
        "log": str(layout.log(step.id).relative_to(step.root)),
        "ran": ran,
        "kept": isinstance(error, VerdictError),
    }
    with contextlib.suppress(OSError):  # on a full disk doit shows the message, but the report cannot
        write_json(layout.failure(step.id), failure)


def clear_failure(step: AnyStep) -> None:
    """Remove the note of the step's failure in an earlier run."""
    Layout(step.root).failure(step.id).unlink(missing_ok=True)


def explain_failure(step: AnyStep) -> Iterator[str]:
    """Yield the failure as a reason to run the step, or nothing if the step itself has not run and failed."""
    try:
        failure = json.loads(Layout(step.root).failure(step.id).read_text())
        if failure["ran"]:
            yield f"it failed the last time: {str(failure['message']).splitlines()[0]}"
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, IndexError):
        yield "it failed the last time"  # a damaged note still means a failure
