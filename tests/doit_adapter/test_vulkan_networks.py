"""Networks from end to end on a Vulkan device, built as users do. The device may be lavapipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doit_project import DoitProject, write_project
from vulkan_project import CELL, DEVICE_CLASS, TARGETS, write_vulkan_project

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
NETWORKS = ("digits", "silero_vad")
STAGES = ("tune", "compile", "benchmark")


def build(folder: Path, *networks: Path) -> DoitProject:
    """Return a project of those networks, all built, checked and timed by doit."""
    names = [path.stem for path in networks]
    models = "".join(f"  {name}: {{source: {{path: {name}.onnx}}}}\n" for name in names)
    project = write_project(folder, networks[0], f"models:\n{models}", TARGETS)
    for path in networks:
        shutil.copy(path, project.root)
    ran = project.doit("tune=never", "strict=1")
    wanted = {f"simplify:{name}" for name in names} | {f"{stage}:{name}@soft" for stage in STAGES for name in names}
    assert (ran.code, set(ran.steps)) == (0, wanted), ran.output
    return project


def check(project: DoitProject, name: str) -> None:
    """Check that its numbers are the original's, and that no part of it ran elsewhere."""
    result = json.loads((project.root / f"build/cells/{name}@soft/result.json").read_text())
    assert 0 < result["max_abs_error"] < 1e-3
    assert result["latency_ms"]["median"] > 0
    shown = project.tvmbuild("run", package_of(name), "--profile", "--repeat", "2")
    assert (shown.code, "every operator ran on the vulkan device" in shown.output) == (0, True), shown.output


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path, project_root: Path) -> DoitProject:
    return build(tmp_path_factory.mktemp("built"), digits, project_root / "models/silero_vad.onnx")


def package_of(name: str) -> str:
    return f"build/cells/{name}@soft/{name}-soft.tar"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_right_and_all_of_it_runs_on_the_device(built: DoitProject, name: str) -> None:
    check(built, name)


@pytest.mark.nightly
@pytest.mark.nights(2)
def test_a_large_network(tmp_path: Path, project_root: Path) -> None:
    check(build(tmp_path, project_root / "models/mobilenet_v2.onnx"), "mobilenet_v2")


def test_a_second_doit_does_nothing(built: DoitProject) -> None:
    ran = built.doit("tune=never", "strict=1")
    assert (ran.code, ran.steps) == (0, []), ran.output


LOAD = """
import sys, numpy, tvmbuild
arrays = dict(numpy.load(sys.argv[2]))
with tvmbuild.load(sys.argv[1]) as session:
    got = session.run({name[6:]: value for name, value in arrays.items() if name.startswith("input:")})
    assert session.info.target.kind == "vulkan"
assert got.keys() == {name[7:] for name in arrays if name.startswith("output:")}
for name, value in got.items():
    numpy.testing.assert_allclose(value, arrays["output:" + name], rtol=1e-3, atol=1e-3)
maps = open("/proc/self/maps").read()
print("libtvm_compiler" in maps, "libtvmbuild_vulkan" in maps, "tvm" in sys.modules)
"""


@pytest.mark.parametrize("name", NETWORKS)
def test_a_package_runs_in_a_process_without_the_compiler(built: DoitProject, name: str, tmp_path: Path) -> None:
    reference = built.root / f"build/models/{name}/reference.npz"
    command = [sys.executable, "-c", LOAD, str(built.root / package_of(name)), str(reference)]
    environment = {variable: value for variable, value in os.environ.items() if variable != "TVM_USE_RUNTIME_LIB"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.split()) == (0, ["False", "True", "False"]), done.stderr


def test_records_of_a_search_are_what_the_next_build_uses(tmp_path: Path) -> None:
    project = write_vulkan_project(tmp_path)
    ran = project.doit()
    assert ran.code == 0, ran.output
    (path,) = (project.root / "records/soft").glob("*.json")
    task = json.loads(path.read_text())
    assert task["searched"] == {DEVICE_CLASS: 2}
    assert len(task["records"]) > 0
    first = (project.root / f"build/cells/{CELL}/schedule.json").read_bytes()
    shutil.rmtree(project.root / "build")
    again = project.doit("strict=1")
    assert again.code == 0, again.output
    cell = project.root / "build/cells" / CELL
    assert (cell / "schedule.json").read_bytes() == first
    assert json.loads((cell / "tune.json").read_text())["measured_now"] == 0
    package = json.loads((cell / "result.json").read_text())["package"]
    assert (package["covered"], package["tasks"]) == (1, 1)
