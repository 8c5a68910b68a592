"""Take a picture of the page of `tvmbuild debug --all` for a small network whose Winograd convolutions are wrong.

python benchmarks/debug_picture.py PICTURE.png

A constant of the kernel is planted wrong, as in tests/debugging/test_faults.py. Debian's chromium draws the page.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Tolerance
from tvmbuild.cli.debug.text import describe_finding
from tvmbuild.compiler import pipeline
from tvmbuild.debugging.builds import Bench, Build
from tvmbuild.debugging.examine import examine
from tvmbuild.debugging.finding import Request
from tvmbuild.debugging.inquiry import Case, Wish
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import Reference, run_onnx
from tvmbuild.report.debug_page import write_debug_page

HERE = Path(__file__).resolve().parent
CELL, SEED = "net@v3", 7
TARGET = PackageTarget("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 1}))


def main(picture: Path) -> None:
    """Examine the network, and write the picture of its page."""
    sys.path.insert(0, str(HERE.parent / "tests/support"))
    from debug_nets import NETS  # noqa: PLC0415 - they lie there
    from planted_faults import on_functions, with_winograd, wrong_constant, wrong_pass  # noqa: PLC0415

    model = NETS["classifier"](SEED)
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    inputs = {"x": np.random.RandomState(SEED).uniform(-1, 1, shape).astype(np.float32)}
    reference = Reference(inputs, run_onnx(model.SerializeToString(), inputs, "net"))
    build = Build(TARGET, with_winograd(model, TARGET))
    damage = on_functions("winograd", wrong_constant(8.0, 7.9))
    with TemporaryDirectory() as name, wrong_pass(pipeline, "PRODUCTS", "ApplyWinograd", damage):
        folder = Path(name)
        case = Case(CELL, model, None, build, Bench(LOCAL, 1), reference, Tolerance())
        found = examine(case, Wish(folder, every=True))
        request = Request(CELL, folder, folder, None, folder, TARGET, case.tolerance, folder, every=True)
        page = folder / "places.html"
        page.write_text(write_debug_page(found, describe_finding(found, request)), encoding="utf-8")
        command = [sys.executable, HERE / "report_picture.py", page, picture, "--height", "840"]
        subprocess.run([*map(str, command)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
