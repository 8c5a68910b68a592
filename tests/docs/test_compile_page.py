"""The first example of docs/how-to/compile.md: from a bare folder to a picture's classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown_commands import find_unseen, list_blocks, list_shown, run_shell


@pytest.mark.nightly
@pytest.mark.compiler
def test_from_a_bare_folder_to_a_pictures_classes(project_root: Path, tmp_path: Path) -> None:
    for name in ("models/mobilenet_v2.onnx", "models/imagenet1000.txt", "examples/classify/chelsea.png"):
        (tmp_path / Path(name).name).symlink_to(project_root / name)
    page = (project_root / "docs/how-to/compile.md").read_text(encoding="utf-8")
    (block,) = (text for why, text in list_blocks(page, "sh") if not why)
    done = run_shell(f"set -euo pipefail\n{block}", tmp_path, project_root)
    assert done.returncode == 0, done.stdout
    assert find_unseen(list_shown(page), done.stdout) == [], done.stdout
    assert "285 0.7" in " ".join(done.stdout.split())
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith((".", "home-"))) == [
        "chelsea.png",
        "imagenet1000.txt",
        "mobilenet_v2.onnx",
        "net.tar",
    ]
