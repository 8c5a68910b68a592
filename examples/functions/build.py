"""Build a package without a project: `python build.py` in a folder with net.onnx."""  # noqa: INP001 - a script

from pathlib import Path

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import InputSpec, Tolerance
from tvmbuild.benchmarking.validation import lower_model, validate
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.simplify import simplify
from tvmbuild.records.schedule import NO_RECORDS  # or read_schedule(Path("…/schedule.json"))

pi4 = PackageTarget("pi4", "llvm", FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 4}))
simplified = simplify(Path("net.onnx"), (InputSpec("Input3", (1, 1, 28, 28)),))
package = build_package(simplified.model, pi4, NO_RECORDS, BuildOptions("net"))
validated = validate(lower_model(simplified.model, pi4), simplified.reference, Tolerance())
write_package(Path("net-pi4.tar"), package)
