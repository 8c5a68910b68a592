"""The stages of a model whose shapes vary: what each writes, what a new size costs, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sized_nets import MODEL, SizedProject, build_project, make_project

from tvmbuild.package.archive import read_metadata

pytestmark = pytest.mark.compiler

SIZES = ["B1-T8", "B2-T16", "B2-T8", "B4-T24"]
WITH_ANOTHER = MODEL.replace("[2, 16], ", "[2, 16], [3, 16], ")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> SizedProject:
    return build_project(tmp_path_factory.mktemp("sized"))


def list_parts(project: SizedProject) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (project.package.parent / "parts").glob("*.tar")}


def test_a_new_size_builds_its_own_function_alone(project: SizedProject) -> None:
    before = list_parts(project)
    assert sorted(name.rpartition("-")[0] for name in before) == SIZES
    project.write(WITH_ANOTHER)
    done = project.run("compile")
    assert done.returncode == 0, done.stdout + done.stderr
    after = list_parts(project)
    (added,) = after.keys() - before.keys()
    assert added.startswith("B3-T16-")
    assert before.items() <= after.items()
    log = (project.root / "build/logs/compile.net@v3.log").read_text()
    assert set(re.findall(r"building (B[^\s,]+)", log)) == {"B3-T16"}
    log = (project.root / "build/logs/simplify.net.log").read_text()
    assert re.findall(r"simplifying (B\S+)", log) == ["B3-T16"]
    sizes = read_metadata(project.package).sizes
    assert sizes is not None
    assert [dict(each.values) for each in sizes.functions][3] == {"B": 3, "T": 16}
    larger = project.package.read_bytes()
    project.write(MODEL)
    assert project.run("compile").returncode == 0
    assert list_parts(project).keys() == before.keys()
    for folder in (project.package.parent, project.root / "build/models/net"):
        assert not (folder / "sizes/B3-T16").exists()
        assert (folder / "sizes/B2-T16").exists()
    project.write(WITH_ANOTHER)
    assert project.run("compile").returncode == 0
    assert project.package.read_bytes() == larger
    project.write(MODEL)
    assert project.run("compile").returncode == 0


def test_the_plan_counts_the_tasks_of_all_sizes_once(project: SizedProject) -> None:
    done = project.run("plan")
    assert done.returncode == 0, done.stderr
    tasks = json.loads((project.package.parent / "tasks.json").read_text())["tasks"]
    folders = [project.package.parent / "sizes" / size for size in SIZES]
    parts = [json.loads((folder / "tasks.json").read_text())["tasks"] for folder in folders]
    assert {each["key"] for each in tasks} == {each["key"] for part in parts for each in part}
    assert read_metadata(project.package).coverage.tasks == len(tasks)
    shown = project.run("plan").stdout
    assert re.search(rf"net@v3 +{len(tasks)} ", shown), shown
    assert "up to date   compile:net@v3" in shown


def test_the_benchmark_checks_and_times_every_size(project: SizedProject) -> None:
    done = project.run("benchmark")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((project.package.parent / "result.json").read_text())
    assert [each["size"] for each in result["sizes"]] == ["B1-T8", "B2-T8", "B2-T16"]
    assert all(each["latency_ms"]["median"] > 0 and each["max_abs_error"] < 1e-3 for each in result["sizes"])
    assert "4 sizes: the largest needs" in (project.root / "build/report.md").read_text()


def test_a_wrong_size_in_the_package_is_found(project: SizedProject) -> None:
    reference = project.root / "build/models/net/sizes/B2-T8/reference.npz"
    whole = reference.read_bytes()
    other = (project.root / "build/models/net/sizes/B1-T8/reference.npz").read_bytes()
    try:
        reference.write_bytes(other)  # the outputs have another shape than this size
        done = project.run("benchmark")
    finally:
        reference.write_bytes(whole)
    assert "simplify:net" in done.stdout  # the damaged reference is made again
    assert done.returncode == 0


def test_padding_that_changes_results_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path, MODEL.replace("pad: {mask: 0}", "pad: {mask: 1}"))
    done = project.run("simplify")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "net: inputs that are padded along T give other results: B1-T1 as B1-T8: output" in said
    assert "give `pad` the input that masks the padding" in said
    assert "Traceback" not in said
    assert not (tmp_path / "build/models/net/sizes.json").exists()


def test_without_pad_only_the_batch_is_padded(tmp_path: Path) -> None:
    project = make_project(tmp_path, MODEL.replace("    pad: {mask: 0}\n", ""))
    assert project.run("simplify").returncode == 0
    found = json.loads((tmp_path / "build/models/net/sizes.json").read_text())
    assert found["padded"] == ["B"]
    assert found["outputs"] == {"rows": ["B", "T", 24], "pooled": ["B", 24]}
