from __future__ import annotations

import subprocess
import sys


def test_help_waits_for_no_slow_library() -> None:
    program = """
import sys
from tvmbuild.cli import main
assert main(["--help"]) == 0
print(sorted({"onnxruntime", "onnx", "tvm", "xgboost"} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
