"""A bundle of Vulkan cells contains the runtime compiled for its target machine."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from bundles import everything, make_bare_python, unpack
from doit_project import DoitProject, write_project

from tvmbuild.base.layout import Layout

pytestmark = pytest.mark.compiler
MODELS = "models:\n  digits:\n    source: {path: digits.onnx}\n    tolerance: {rtol: 1e-2}\n"
HOST = "host: {mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1}"
TARGETS = f"""\
defaults:
  device: none
  tune: {{trials_per_task: 2, ops: ["matmul*"], number: 1, repeat: 1, min_repeat_ms: 1}}
  benchmark: {{repeat: 3, baselines: []}}
targets:
  cpu: {{kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1}}
  gpu: {{kind: vulkan, family: lavapipe, {HOST}}}
"""
NAME = "libtvmbuild_vulkan.so"
LIBRARIES = "site/tvmbuild/package/runtime/vulkan/lib"


@pytest.fixture
def project(tmp_path: Path, digits: Path) -> DoitProject:
    made = write_project(tmp_path, digits, MODELS, TARGETS)
    simplified = Layout(made.root).model_file("digits", "model.onnx")
    simplified.parent.mkdir(parents=True)
    shutil.copy(digits, simplified)
    return made


def read_libraries(bundle: Path) -> dict[str, bytes]:
    with tarfile.open(bundle) as archive:
        members = [member for member in archive if ".so" in member.name]
        files = {member.name: archive.extractfile(member) for member in members}
        return {name: file.read() for name, file in files.items() if file}


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_it_has_the_runtime_for_the_other_machine_alone(project: DoitProject, machine: str, number: int) -> None:
    made = project.tvmbuild("bundle", "digits@*", "--have", everything(), "--machine", machine, "-o", "b.tar")
    assert made.code == 0, made.output
    ((name, library),) = read_libraries(project.root / "b.tar").items()
    assert name == f"{LIBRARIES}/{machine}/{NAME}"
    assert struct.unpack_from("<4s14xH", library) == (b"\x7fELF", number)
    assert b"tvmbuild_vulkan_register" in library


def test_cells_for_cpus_need_none(project: DoitProject) -> None:
    made = project.tvmbuild("bundle", "digits@cpu", "--have", everything(), "--machine", "riscv64", "-o", "b.tar")
    assert made.code == 0, made.output
    assert read_libraries(project.root / "b.tar") == {}


def test_a_machine_that_has_no_runtime_is_named(project: DoitProject) -> None:
    made = project.tvmbuild("bundle", "digits@gpu", "--have", everything(), "--machine", "riscv64", "-o", "b.tar")
    assert made.code == 1
    assert "there is no Vulkan runtime for riscv64\n  hint: there is one for x86_64 and aarch64" in made.output
    assert not (project.root / "b.tar").exists()


@pytest.mark.nightly
@pytest.mark.toolchain
@pytest.mark.vulkan
def test_it_runs_where_nothing_compiles_the_runtime(project: DoitProject, tmp_path: Path) -> None:
    made = project.tvmbuild("bundle", "digits@gpu", "--have", everything(), "-o", "b.tar")
    assert made.code == 0, made.output
    there = tmp_path / "there"
    unpack(project.root / "b.tar", there)
    python, cache = make_bare_python(tmp_path / "python"), tmp_path / "cache"

    def run() -> str:
        environment = project.environment(XDG_CACHE_HOME=str(cache), TVMBUILD_VULKAN="own")
        environment.pop("PYTHONPATH", None)
        command = [str(python), "run.py", "--jobs", "1", "--minutes", "3"]
        done = subprocess.run(
            command, cwd=there, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        return f"{done.stdout}{done.stderr}exit status {done.returncode}"

    library = there / LIBRARIES / "x86_64" / NAME
    library.rename(tmp_path / NAME)
    run()
    result = there / "project" / "build" / "cells" / "digits@gpu" / "result.json"
    assert not result.exists()
    (tmp_path / NAME).rename(library)
    said = run()
    assert said.endswith("exit status 0"), said
    assert json.loads(result.read_text())["max_abs_error"] < 1e-3
    assert list(Layout(there / "project").records("gpu").glob("*.json"))
    assert not (cache / "tvmbuild" / "vulkan").exists()
