from __future__ import annotations

from dataclasses import replace

import pytest

from tvmbuild.base.masking import mask_credentials
from tvmbuild.base.progress import report_progress
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.config.mistakes import Mistake, Position
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.errors import TvmbuildError

URL = "https://user:s3cret@host.invalid/a/m.onnx"
MASKED = "https://***@host.invalid/a/m.onnx"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (URL, MASKED),
        ("https://s3cret@host.invalid", "https://***@host.invalid"),
        ("https://user:s3@cret@host.invalid:8080/x?y", "https://***@host.invalid:8080/x?y"),
        (f"cannot get {URL}, nor {URL}: no", f"cannot get {MASKED}, nor {MASKED}: no"),
    ],
)
def test_credentials_are_masked(text: str, masked: str) -> None:
    assert mask_credentials(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "https://host.invalid/a@b/m.onnx",
        "https://host.invalid?mail=a@b.c",
        "compile:net@pi4",
        '"file://x","a@b"',
        "see me@home://x",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert mask_credentials(text) == text


def test_errors_progress_and_fingerprints_show_none(capsys: pytest.CaptureFixture[str]) -> None:
    error = TvmbuildError(f"no {URL}", f"correct {URL}")
    assert (error.message, error.hint, error.args) == (f"no {MASKED}", f"correct {MASKED}", (f"no {MASKED}",))
    report_progress(f"fetching {URL}")
    assert capsys.readouterr().out == f"::progress fetching {MASKED}\n"
    step = Step("simplify", "net", SimplifyStep("net", Source("url", URL, None, "0" * 64), (), SimplifyOptions()))
    pairs = fingerprint(step)
    assert pairs["option.source.location"] == f'"{MASKED}"'
    renewed = Source("url", URL.replace("s3cret", "another"), None, "0" * 64)
    assert fingerprint(replace(step, options=replace(step.options, source=renewed))) == pairs


def test_mistakes_in_yaml_show_none() -> None:
    assert "s3cret" not in str(TvmbuildError(str(Mistake("models.yaml", Position(), (), f'found "{URL}"'))))
