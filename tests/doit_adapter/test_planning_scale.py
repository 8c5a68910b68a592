"""Planning a large matrix imports no TVM, no ONNX and no NumPy. (benchmarks/planning.py prints how long it takes.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tvmbuild.stages.table import STAGES

HEAVY = ("tvm", "tvm_ffi", "onnx", "onnxruntime", "onnxsim", "numpy", "xgboost")
SCRIPT = f"""
import sys
from doit.doit_cmd import DoitMain
code = DoitMain().run(sys.argv[1:])
print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules])
sys.exit(code)
"""


def _run(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=root,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_listing_a_thousand_cells_imports_nothing_heavy(tmp_path: Path, project_root: Path) -> None:
    sys_path = str(project_root / "benchmarks")
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import planning, pathlib, sys; planning.write_matrix(pathlib.Path(sys.argv[1]))",
            str(tmp_path),
        ],
        env=os.environ | {"PYTHONPATH": sys_path},
        check=True,
    )
    lines = _run(tmp_path, "list", "--all")
    assert lines[-1] == "HEAVY []"
    names = [line.split()[0] for line in lines[:-1]]
    cells, without_device = 1000, 600
    groups = len(STAGES) + 1  # the report, too
    assert len(names) == 200 + 3 * cells + without_device + groups  # simplify; the stages of a cell; the groups
    assert "compile:model_199@target_4" in names


def test_status_of_the_shipped_matrix_imports_nothing_heavy(project_root: Path) -> None:
    assert _run(project_root, "list", "--all", "-s")[-1] == "HEAVY []"
