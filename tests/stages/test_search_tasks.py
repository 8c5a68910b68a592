from __future__ import annotations

from typing import Any

import pytest

from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
UNLINKED = "build failed: Traceback\n  …\nOSError: [Errno 28] No space left on device"


@pytest.fixture
def task() -> Any:
    from tvmbuild.compiler.tasks import Task

    return Task("00ff" * 4, "conv2d", None, 1)


def test_a_machine_that_cannot_build_is_an_error_and_not_a_search(task: Any) -> None:
    from tvmbuild.stages.search_tasks import _report_errors
    from tvmbuild.tuner.search import Batch

    with pytest.raises(TvmbuildError, match=r"no candidate of the Task conv2d .*No space left on device") as caught:
        _report_errors(task, Batch(32, (), (UNLINKED,) * 32))
    assert "TMPDIR" in (caught.value.hint or "")


def test_single_failures_are_logged_and_the_search_goes_on(task: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from tvmbuild.stages.search_tasks import _report_errors
    from tvmbuild.tuner.search import Batch, Measured

    run = "run: Subprocess terminated"
    _report_errors(task, Batch(3, (Measured("{}", 1e-6),), (UNLINKED, run)))
    _report_errors(task, Batch(3, (), (run,) * 3))
    _report_errors(task, Batch(1, (), (UNLINKED,)))
    assert capsys.readouterr().out.splitlines() == [
        "conv2d: 1 of 3 candidates failed: OSError: [Errno 28] No space left on device",
        f"conv2d: 1 of 3 candidates failed: {run}",
        f"conv2d: 3 of 3 candidates failed: {run}",
        "conv2d: 1 of 1 candidates failed: OSError: [Errno 28] No space left on device",
    ]
