"""Files in the project and variables in the environment do not reach a stage."""

from __future__ import annotations

import pytest
from doit_project import DoitProject


# The quick stages import nothing that could be shadowed.
@pytest.mark.parametrize("quick", [pytest.param("real", marks=pytest.mark.compiler)], indirect=True, scope="session")
def test_files_in_the_project_shadow_no_package(project: DoitProject) -> None:
    for name in ("onnx.py", "tvm.py", "numpy.py"):
        (project.root / name).write_text("raise RuntimeError('shadowed')\n")
    (project.root / "build/cells/digits@v3/digits-v3.tar").unlink()
    assert project.tvmbuild("tune=never").steps == ["compile:digits@v3"]


def test_environment_does_not_reach_the_stages(project: DoitProject) -> None:
    package = project.root / "build/cells/digits@v3/digits-v3.tar"
    before = package.read_bytes()
    package.unlink()
    ran = project.doit("tune=never", TVM_NUM_THREADS="7", TVM_LOG_DEBUG="1", PYTHONHASHSEED="99")
    assert ran.steps == ["compile:digits@v3"]
    assert package.read_bytes() == before
