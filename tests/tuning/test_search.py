from __future__ import annotations

from typing import Any

import pytest

from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
UNLINKED = "build failed: Traceback\n  …\nOSError: [Errno 28] No space left on device"


def batch(errors: tuple[str, ...], ran: int = 0) -> Any:
    """Return a Batch of a Task with that many candidates that failed and that ran."""
    from types import SimpleNamespace

    from tvmbuild.compiler.tasks import Task
    from tvmbuild.tuning.batches import Batch
    from tvmbuild.tuning.candidate_pool import Timed

    search: Any = SimpleNamespace(task=Task("00ff" * 4, "conv2d", None, 1))
    timed = (*(Timed(error=error) for error in errors), *(Timed((1e-6,)) for _ in range(ran)))
    return Batch(search, (None,) * len(timed), timed, 1.0, {})


@pytest.mark.parametrize("candidates", [1, 32])
def test_a_machine_that_cannot_build_is_an_error_and_not_a_search(candidates: int) -> None:
    from tvmbuild.tuning.search import _report_errors

    with pytest.raises(TvmbuildError, match=r"no candidate of the Task conv2d .*No space left on device") as caught:
        _report_errors(batch((UNLINKED,) * candidates))
    assert "TMPDIR" in (caught.value.hint or "")


def test_a_task_that_a_card_has_no_code_for_ends_no_search(capsys: pytest.CaptureFixture[str]) -> None:
    from tvmbuild.tuning.search import _report_errors

    _report_errors(batch((UNLINKED,) * 3), "cuda")
    assert "3 of 3 candidates failed" in capsys.readouterr().out


def test_a_task_that_tvm_refuses_ends_no_search(capsys: pytest.CaptureFixture[str]) -> None:
    from tvmbuild.tuning.search import _report_errors

    _report_errors(batch(("build failed: Traceback\n  …\ntvm.error.InternalError: Check failed: extent 0",) * 3))
    assert "3 of 3 candidates failed" in capsys.readouterr().out
    with pytest.raises(TvmbuildError, match="no candidate"):
        _report_errors(batch(("build failed: …\ntvm.error.InternalError: cannot open the file m.o",) * 3))


def test_single_failures_are_logged_and_the_search_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    from tvmbuild.tuning.search import _report_errors

    run = "run: Subprocess terminated"
    _report_errors(batch((UNLINKED, run), ran=1))
    _report_errors(batch((run,) * 3))
    assert capsys.readouterr().out.splitlines() == [
        "conv2d: 1 of 3 candidates failed: OSError: [Errno 28] No space left on device",
        f"conv2d: 1 of 3 candidates failed: {run}",
        f"conv2d: 3 of 3 candidates failed: {run}",
    ]
