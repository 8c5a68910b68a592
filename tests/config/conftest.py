"""A project of two small valid files; a test replaces one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base.specs import Project
from tvmbuild.config import load_project
from tvmbuild.config.load import HINT
from tvmbuild.errors import TvmbuildError

GOOD_MODELS = "models:\n  net:\n    source: {path: models/net.onnx}\n"
GOOD_TARGETS = "targets:\n  pc: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}\n"

Write = Callable[..., Path]


@pytest.fixture
def write_project(tmp_path: Path) -> Write:
    """Return a function that writes both files, a valid one for a missing argument; bytes are written as they are."""

    def write(models: str | bytes = GOOD_MODELS, targets: str | bytes = GOOD_TARGETS) -> Path:
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "models" / "net.onnx").write_bytes(b"onnx")
        (tmp_path / "models" / "labels.txt").write_text("cat\ndog\n")
        for name, content in (("models.yaml", models), ("targets.yaml", targets)):
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


@pytest.fixture
def load(write_project: Write) -> Callable[..., Project]:
    """Return a function that writes both files and loads them."""
    return lambda **files: load_project(write_project(**files))


@pytest.fixture
def load_mistakes(write_project: Write) -> Callable[..., list[str]]:
    """Return a function that writes both files and returns the error lines of loading them."""

    def find(**files: str | bytes) -> list[str]:
        with pytest.raises(TvmbuildError) as caught:
            load_project(write_project(**files))
        assert caught.value.hint == HINT
        return caught.value.message.split("\n")

    return find
