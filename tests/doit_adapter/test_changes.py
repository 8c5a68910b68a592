"""The table "change -> what runs" of docs/explanation/architecture.md, each row with doit; daily with real stages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from doit_project import DoitProject, write_project
from onnx import numpy_helper

ALL_V3 = ["tune:digits@v3", "compile:digits@v3", "benchmark:digits@v3"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool) -> DoitProject:
    """The project after one doit that measured records for v3; v2 has none."""
    project = write_project(tmp_path_factory.mktemp("built"), digits, quick=quick)
    project.edit("targets.yaml", "measured_on: here}\n  v3", "measured_on: here, tune: {ops: []}}\n  v3")
    ran = project.doit()
    assert ran.code == 0, ran.output
    assert len(ran.steps) == 7, ran.output
    assert len(list((project.root / "records" / "v3").glob("*.json"))) == 2
    return project


@pytest.fixture
def project(built: DoitProject, tmp_path: Path) -> Iterator[DoitProject]:
    copy = built.copy(tmp_path)
    yield copy
    assert copy.doit().steps == [], "the run after the change did not bring the project up to date"


def _run(project: DoitProject, *arguments: str) -> list[str]:
    ran = project.doit(*arguments)
    assert ran.code == 0, ran.output
    return ran.steps


def _record_files(project: DoitProject) -> list[Path]:
    return sorted((project.root / "records" / "v3").glob("*.json"))


def test_nothing_changed_runs_nothing(project: DoitProject) -> None:
    assert _run(project) == []


def test_touch_runs_nothing(project: DoitProject) -> None:
    for path in project.root.rglob("*"):
        if path.is_file() and ".state" not in path.parts:
            os.utime(path)
    assert _run(project) == []


def test_yaml_comment_runs_nothing(project: DoitProject) -> None:
    for name in ("models.yaml", "targets.yaml"):
        path = project.root / name
        path.write_text(f"# another comment\n\n{path.read_text()}")
    assert _run(project) == []


def test_losing_record_runs_nothing(project: DoitProject) -> None:
    path = _record_files(project)[0]
    data = json.loads(path.read_text())
    slow = json.loads(json.dumps(data["records"][0]))
    slow["seconds"] = 9.0
    slow["trace"]["decisions"] = []
    data["records"].append(slow)
    path.write_text(json.dumps(data))
    assert _run(project) == []


def test_winning_record_runs_tune_compile_benchmark(project: DoitProject) -> None:
    path = next(path for path in _record_files(project) if len(json.loads(path.read_text())["records"]) > 1)
    data = json.loads(path.read_text())
    data["records"][1]["seconds"] = data["records"][0]["seconds"] / 2
    path.write_text(json.dumps(data))
    assert _run(project) == ALL_V3


def test_record_of_another_target_runs_nothing(project: DoitProject) -> None:
    other = project.root / "records" / "other"
    other.mkdir()
    (other / _record_files(project)[0].name).write_bytes(_record_files(project)[0].read_bytes())
    assert _run(project) == []


def test_model_bytes_run_everything_and_measure_nothing(project: DoitProject) -> None:
    before = [path.read_bytes() for path in _record_files(project)]
    _retrain(project.root / "digits.onnx")
    assert sorted(_run(project)) == sorted(
        ["simplify:digits", *ALL_V3, "tune:digits@v2", "compile:digits@v2", "benchmark:digits@v2"]
    )
    assert [path.read_bytes() for path in _record_files(project)] == before


def _retrain(path: Path) -> None:
    """Change the weights, but not their shapes."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == "float32":
            tensor.CopyFrom(numpy_helper.from_array(array * 0.9, tensor.name))
    onnx.save(model, path)


def test_a_model_replaced_by_one_of_its_size_and_time_runs(project: DoitProject) -> None:
    source = project.root / "digits.onnx"
    _retrain(source)  # the weights are raw bytes now, so its size stays from here on
    assert _run(project, "simplify") == ["simplify:digits"]
    before = source.stat()
    new = project.root / "new.onnx"
    shutil.copyfile(source, new)
    _retrain(new)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(source)
    assert (source.stat().st_size, source.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert _run(project)[0] == "simplify:digits"


def test_an_output_edited_within_its_size_and_time_is_made_again(project: DoitProject) -> None:
    package = project.root / "build/cells/digits@v3/digits-v3.tar"
    before, data = package.stat(), package.read_bytes()
    with package.open("r+b") as stream:
        stream.write(bytes([data[0] ^ 1]))
    os.utime(package, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _run(project, "compile:digits@v3") == ["compile:digits@v3"]
    assert package.read_bytes() == data


def test_external_weights_are_an_input(project: DoitProject) -> None:
    source = project.root / "digits.onnx"
    _retrain(source)  # also stores the weights as raw bytes, since only these can be external
    model = onnx.load(source)
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert _run(project, "simplify") == ["simplify:digits"]
    assert _run(project, "simplify") == []
    weights = project.root / "weights.bin"
    weights.write_bytes(bytes(reversed(weights.read_bytes()[:8])) + weights.read_bytes()[8:])
    explained = project.doit("info", "simplify:digits").output
    assert "input external data weights.bin changed: sha256 " in explained
    assert _run(project)[0] == "simplify:digits"


def test_strict_refuses_uncovered_tasks_of_an_up_to_date_cell(project: DoitProject) -> None:
    ran = project.doit("tune:digits@v3", "strict=1")
    assert ran.code != 0
    assert ran.failed == ["tune:digits@v3"]
    assert "Traceback" not in ran.output
    assert project.doit("tune:digits@v3").code == 0


def test_tune_full_searches_again(project: DoitProject) -> None:
    assert project.doit("tune:digits@v3", "tune=full").steps == ["tune:digits@v3"]
    project.doit()


def test_tolerance_runs_the_benchmarks(project: DoitProject) -> None:
    project.edit("models.yaml", "atol: 1e-3", "atol: 2e-3")
    assert _run(project) == ["benchmark:digits@v2", "benchmark:digits@v3"]


def test_target_attribute_runs_that_targets_cells(project: DoitProject) -> None:
    project.edit("targets.yaml", "mcpu: x86-64-v2", "mcpu: nehalem")
    assert _run(project) == ["tune:digits@v2", "compile:digits@v2", "benchmark:digits@v2"]


def test_tune_option_runs_tune_alone_when_no_winner_changes(project: DoitProject) -> None:
    project.edit("targets.yaml", "trials_per_task: 2", "trials_per_task: 1")
    assert _run(project) == ["tune:digits@v2", "tune:digits@v3"]


def test_glibc_floor_runs_compile_and_not_tune(project: DoitProject) -> None:
    project.edit("targets.yaml", "x86-64-v3, mtriple", 'x86-64-v3, glibc: "2.31", mtriple')
    assert _run(project)[0] == "compile:digits@v3"


def test_deleted_package_is_compiled_and_not_benchmarked(project: DoitProject) -> None:
    (project.root / "build/cells/digits@v3/digits-v3.tar").unlink()
    assert _run(project) == ["compile:digits@v3"]


def test_damaged_package_is_compiled_and_not_benchmarked(project: DoitProject) -> None:
    package = project.root / "build/cells/digits@v3/digits-v3.tar"
    package.write_bytes(package.read_bytes()[:-512] + b"x" * 512)
    assert _run(project) == ["compile:digits@v3"]


def test_added_target_runs_its_own_steps(project: DoitProject) -> None:
    line = "  v1: {kind: llvm, mcpu: x86-64, mtriple: x86_64-linux-gnu, num-cores: 1, tune: {ops: []}}\n"
    with (project.root / "targets.yaml").open("a") as stream:
        stream.write(line)
    assert _run(project) == ["tune:digits@v1", "compile:digits@v1", "benchmark:digits@v1"]


def test_added_model_runs_its_own_steps(project: DoitProject) -> None:
    with (project.root / "models.yaml").open("a") as stream:
        stream.write("  twin:\n    source: {path: digits.onnx}\n    targets: {include: [v3]}\n")
    assert _run(project) == ["simplify:twin", "tune:twin@v3", "compile:twin@v3", "benchmark:twin@v3"]


def test_the_mode_is_in_no_fingerprint(project: DoitProject) -> None:
    assert _run(project, "tune=never") == []
    assert _run(project, "tune=never", "strict=0") == []


def test_report_is_written_when_a_result_changes_and_only_then(project: DoitProject) -> None:
    report = project.root / "build/report.md"
    before = report.stat().st_mtime_ns
    assert _run(project) == []
    assert report.stat().st_mtime_ns == before
    project.edit("models.yaml", "atol: 1e-3", "atol: 2e-3")
    assert _run(project) != []
    assert report.stat().st_mtime_ns != before
