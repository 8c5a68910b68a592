"""Time `doit list --all` on 200 models x 5 targets (3,200 steps), and a `doit list --all -s` of the same.

Run: python benchmarks/planning.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS, TARGETS, REPEATS = 200, 5, 5
DODO = """\
from tvmbuild.doit_adapter.loader import load_doit_file
DOIT_CONFIG, task_steps = load_doit_file(__file__)
"""


def write_matrix(root: Path, models: int = MODELS, targets: int = TARGETS) -> None:
    """Write a project of that size; the models share one file, which nothing reads while planning."""
    (root / "net.onnx").write_bytes(b"")
    rows = [f"  model_{index}:\n    source: {{path: net.onnx}}\n" for index in range(models)]
    (root / "models.yaml").write_text("models:\n" + "".join(rows))
    cpu = "kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu"
    cells = [f"  target_{index}: {{{cpu}, num-cores: {index + 1}}}\n" for index in range(targets)]
    (root / "targets.yaml").write_text("targets:\n" + "".join(cells))
    (root / "dodo.py").write_text(DODO)


def main() -> None:
    """Print the best of some repeats of each command."""
    with tempfile.TemporaryDirectory() as folder:
        write_matrix(Path(folder))
        for arguments in (["list", "--all"], ["list", "--all", "-s"]):
            seconds = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                done = subprocess.run(
                    [sys.executable, "-m", "doit", *arguments], cwd=folder, capture_output=True, text=True, check=True
                )
                seconds.append(time.perf_counter() - start)
            print(f"doit {' '.join(arguments)}: {len(done.stdout.splitlines())} lines, {min(seconds):.2f} s")


if __name__ == "__main__":
    main()
