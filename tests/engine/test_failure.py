from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvmbuild.base.layout import Layout
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.engine.failure import write_failure
from tvmbuild.errors import TvmbuildError


@pytest.mark.parametrize(
    ("hint", "kept"),
    [("correct it {log}", "correct it"), ("{log}", None), ("correct it", "correct it"), (None, None)],
)
def test_a_reports_hint_holds_no_absolute_path(tmp_path: Path, hint: str | None, kept: str | None) -> None:
    options = SimplifyStep("net", Source("path", "net.onnx"), (), SimplifyOptions())
    step = Step("simplify", "net", options, root=tmp_path)
    layout = Layout(tmp_path)
    log = f"Log: {layout.log(step.id)}"
    write_failure(step, TvmbuildError("it broke", hint and hint.format(log=log)), ran=True)
    failure = json.loads(layout.failure(step.id).read_text())
    assert failure["hint"] == kept
    assert failure["log"] == "build/logs/simplify.net.log"
    assert failure["message"] == "it broke"
