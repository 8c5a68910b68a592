"""Clones that share a cache folder, with real doit and real stages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from doit_project import DoitProject, Ran, make_project, wait_for_line, wait_until_gone, write_project

pytestmark = pytest.mark.compiler

MODELS = "models:\n  digits:\n    source: {path: digits.onnx}\n    targets: {include: [v3]}\n"
STEPS = ["simplify:digits", "tune:digits@v3", "compile:digits@v3", "benchmark:digits@v3"]
SOURCES = ("digits.onnx", "models.yaml", "targets.yaml", "dodo.py", "records")


@dataclass(frozen=True)
class Warm:
    """A project that was built, and the cache that it filled."""

    project: DoitProject
    cache: Path


def _restored(ran: Ran) -> list[str]:
    return re.findall(r"^ok (\S+)  [\d.]+ s  restored from the cache$", ran.output, re.MULTILINE)


def _outputs(project: DoitProject) -> dict[str, bytes]:
    build = project.root / "build"
    folders = (build / "models", build / "cells")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(build)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, shared_models: Path) -> Warm:
    folder = tmp_path_factory.mktemp("warm")
    project = write_project(folder, shared_models / "mnist.onnx", MODELS)
    ran = project.doit(TVMBUILD_CACHE=str(folder / "cache"))
    assert ran.steps == STEPS, ran.output
    assert _restored(ran) == []
    assert len(list((project.root / "records/v3").glob("*.json"))) == 2
    return Warm(project, folder / "cache")


@pytest.fixture
def cache(warm: Warm, tmp_path: Path) -> Path:
    """A copy of the full cache."""
    return Path(shutil.copytree(warm.cache, tmp_path / "cache"))


@pytest.fixture
def clone(warm: Warm, tmp_path: Path) -> DoitProject:
    """What git has of the project, somewhere else."""
    project = make_project(tmp_path / "some where" / "else")
    for name in SOURCES:
        source = warm.project.root / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, project.root / name)
    return project


def _entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.step"))


@pytest.mark.parametrize("arguments", [(), ("-n", "2"), ("-n", "2", "-P", "thread"), ("tune=never",)])
def test_a_fresh_clone_restores_every_step(
    warm: Warm, cache: Path, clone: DoitProject, arguments: tuple[str, ...]
) -> None:
    ran = clone.doit(*arguments, TVMBUILD_CACHE=str(cache))
    assert ran.code == 0, ran.output
    assert _restored(ran) == STEPS
    assert "4 done (4 restored from the cache), 0 up to date" in ran.output
    assert "warning" not in ran.output
    assert _outputs(clone) == _outputs(warm.project)
    assert clone.temporaries() == []
    for log in (clone.root / "build/logs").iterdir():
        assert log.read_text().startswith("restored from the cache: ")
    assert clone.doit().steps == [], "without the cache, the state is as if the steps had run"


def test_the_yaml_file_names_the_cache_and_an_empty_variable_turns_it_off(cache: Path, clone: DoitProject) -> None:
    targets = clone.root / "targets.yaml"
    targets.write_text(f"cache: {{path: {os.path.relpath(cache, clone.root)}, size: 1 GB}}\n{targets.read_text()}")
    off = clone.doit("simplify", TVMBUILD_CACHE="")
    assert (off.steps, _restored(off)) == (["simplify:digits"], [])
    shutil.rmtree(clone.root / "build")
    assert _restored(clone.doit()) == STEPS


def test_a_lost_output_comes_back_from_the_cache(cache: Path, clone: DoitProject) -> None:
    clone.doit(TVMBUILD_CACHE=str(cache))
    package = clone.root / "build/cells/digits@v3/digits-v3.tar"
    good = package.read_bytes()
    package.write_bytes(good[:-1])
    ran = clone.doit(TVMBUILD_CACHE=str(cache))
    assert _restored(ran) == ["compile:digits@v3"] == ran.steps
    assert package.read_bytes() == good


def test_a_users_edit_of_an_output_does_not_reach_the_cache(cache: Path, clone: DoitProject) -> None:
    before = {path: path.read_bytes() for path in _entries(cache)}
    clone.doit(TVMBUILD_CACHE=str(cache))
    for path in (path for path in (clone.root / "build/cells").rglob("*") if path.is_file()):
        with path.open("ab") as stream:
            stream.write(b"edited")
    assert {path: path.read_bytes() for path in _entries(cache)} == before
    assert _restored(clone.doit(TVMBUILD_CACHE=str(cache))) == STEPS[1:]


@pytest.mark.parametrize("damage", ["output", "manifest"])
def test_a_damaged_entry_is_replaced_and_never_used(warm: Warm, cache: Path, clone: DoitProject, damage: str) -> None:
    for entry in _entries(cache):
        good = entry.read_bytes()
        entry.write_bytes(good[:-7] if damage == "output" else good.replace(b'"size":', b'"size":1', 1))
    ran = clone.doit("tune=never", TVMBUILD_CACHE=str(cache))
    assert ran.code == 0, ran.output
    assert (ran.steps, _restored(ran)) == (STEPS, [])
    assert ran.output.count("warning: a damaged entry of the cache is not used: ") == 4
    package = "cells/digits@v3/digits-v3.tar"
    assert _outputs(clone)[package] == _outputs(warm.project)[package]
    shutil.rmtree(clone.root / "build")
    again = clone.doit("tune=never", TVMBUILD_CACHE=str(cache))
    assert (_restored(again), "warning" in again.output) == (STEPS, False)


def _record_files(project: DoitProject) -> list[Path]:
    return sorted((project.root / "records/v3").glob("*.json"))


def test_without_its_records_a_clone_does_not_get_another_clones_schedule(cache: Path, clone: DoitProject) -> None:
    shutil.rmtree(clone.root / "records")
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(cache))
    assert (ran.steps, _restored(ran)) == (STEPS[:3], ["simplify:digits"])
    assert json.loads((clone.root / "build/cells/digits@v3/schedule.json").read_text())["schedule"] == {}


def test_schedules_of_several_records_are_kept_side_by_side(warm: Warm, cache: Path, clone: DoitProject) -> None:
    records = clone.root / "records"
    away = records.rename(clone.root / "away")
    clone.doit("tune", "tune=never", TVMBUILD_CACHE=str(cache))
    away.rename(records)
    shutil.rmtree(clone.root / "build")
    assert _restored(clone.doit(TVMBUILD_CACHE=str(cache))) == STEPS
    assert _outputs(clone) == _outputs(warm.project)


def test_a_new_winner_is_tuned_and_compiled(cache: Path, clone: DoitProject) -> None:
    path = next(path for path in _record_files(clone) if len(json.loads(path.read_text())["records"]) > 1)
    data = json.loads(path.read_text())
    data["records"][1]["seconds"] = data["records"][0]["seconds"] / 2
    path.write_text(json.dumps(data))
    ran = clone.doit(TVMBUILD_CACHE=str(cache))
    assert (ran.steps, _restored(ran)) == (STEPS, ["simplify:digits"])


def test_a_losing_record_changes_nothing(cache: Path, clone: DoitProject) -> None:
    path = _record_files(clone)[0]
    data = json.loads(path.read_text())
    slow = json.loads(json.dumps(data["records"][0])) | {"seconds": 9.0}
    slow["trace"]["decisions"] = []
    data["records"].append(slow)
    path.write_text(json.dumps(data))
    assert _restored(clone.doit(TVMBUILD_CACHE=str(cache))) == STEPS


def test_what_is_missing_is_searched_and_not_restored(cache: Path, clone: DoitProject) -> None:
    path = _record_files(clone)[0]
    data = json.loads(path.read_text())
    data["searched"] = dict.fromkeys(data["searched"], 1)
    data["exhausted"] = []
    path.write_text(json.dumps(data))
    ran = clone.doit("tune", "tune=never", TVMBUILD_CACHE=str(cache))
    assert _restored(ran) == STEPS[:2], "never: the winners are the same"
    shutil.rmtree(clone.root / "build")
    ran = clone.doit("tune", TVMBUILD_CACHE=str(cache))
    assert (ran.steps, _restored(ran)) == (STEPS[:2], STEPS[:1])


def test_strict_is_told_what_is_uncovered(cache: Path, clone: DoitProject) -> None:
    ran = clone.doit("tune", "tune=never", "strict=1", TVMBUILD_CACHE=str(cache))
    assert ran.failed == ["tune:digits@v3"]
    assert "6 of 8 Tasks have no record" in ran.output


def test_another_model_target_or_option_is_not_restored(cache: Path, clone: DoitProject) -> None:
    model = onnx.load(clone.root / "digits.onnx")
    model.doc_string = "another model"
    onnx.save(model, clone.root / "digits.onnx")
    ran = clone.doit("simplify", TVMBUILD_CACHE=str(cache))
    assert (ran.steps, _restored(ran)) == (STEPS[:1], [])
    clone.edit("targets.yaml", "x86-64-v3, mtriple", 'x86-64-v3, glibc: "2.31", mtriple')
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(cache))
    assert "compile:digits@v3" in ran.steps
    assert "compile:digits@v3" not in _restored(ran)


def test_external_weights_are_part_of_the_key(cache: Path, clone: DoitProject) -> None:
    source = clone.root / "digits.onnx"
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))  # raw bytes: only these can be external
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    weights = clone.root / "weights.bin"
    first, entries = weights.read_bytes(), len(_entries(cache))
    for data, expected in ((first, []), (first, STEPS[:1]), (bytes(8) + first[8:], []), (first, STEPS[:1])):
        shutil.rmtree(clone.root / "build", ignore_errors=True)
        weights.write_bytes(data)
        assert _restored(clone.doit("simplify", TVMBUILD_CACHE=str(cache))) == expected
    assert len(_entries(cache)) == entries + 2


def test_failures_are_not_cached(clone: DoitProject, tmp_path: Path) -> None:
    (clone.root / "digits.onnx").write_bytes(b"no model")
    for _ in range(2):
        assert clone.doit("simplify", TVMBUILD_CACHE=str(tmp_path / "new")).failed == ["simplify:digits"]
    assert _entries(tmp_path / "new") == []


def test_an_unusable_cache_is_one_warning(clone: DoitProject, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    clone.edit("models.yaml", "    targets: {include: [v3]}\n", "")
    for place, said in (
        (tmp_path / "file", "cannot be read: Not a directory; steps run without it"),
        (Path("/proc/none"), "cannot be written: No such file or directory; nothing is added to it"),
    ):
        shutil.rmtree(clone.root / "build", ignore_errors=True)
        ran = clone.doit("-n", "2", "tune", "tune=never", TVMBUILD_CACHE=str(place))
        assert ran.code == 0, ran.output
        assert len(ran.steps) == 3
        assert re.findall(r"^warning: .*", ran.output, re.MULTILINE) == [f"warning: the cache {place} {said}"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A cache folder on a disk of its own with room for a simplified model and little more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_warning_and_what_fits_is_used(clone: DoitProject, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(150_000))
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(small_disk))
    assert (ran.code, ran.steps) == (0, STEPS[:3]), ran.output
    assert re.findall(r"^warning: .*", ran.output, re.MULTILINE) == [
        f"warning: the cache {small_disk} cannot be written: No space left on device; nothing is added to it"
    ]
    assert list(small_disk.rglob("*.tmp")) == []
    stored = len(_entries(small_disk))
    shutil.rmtree(clone.root / "build")
    assert len(_restored(clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(small_disk)))) == stored


def test_a_read_only_cache_is_used_and_not_added_to(cache: Path, clone: DoitProject, small_disk: Path) -> None:
    simplified = min(_entries(cache), key=lambda path: b'"reference"' not in path.read_bytes())
    place = small_disk / simplified.relative_to(cache)
    place.parent.mkdir(parents=True)
    shutil.copyfile(simplified, place)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(small_disk))
    assert (ran.code, ran.steps, _restored(ran)) == (0, STEPS[:3], STEPS[:1]), ran.output
    assert re.findall(r"^warning: .*", ran.output, re.MULTILINE) == [
        f"warning: the cache {small_disk} cannot be written: Read-only file system; nothing is added to it"
    ]


def test_the_size_bounds_the_cache(warm: Warm, clone: DoitProject, tmp_path: Path) -> None:
    largest = max(path.stat().st_size for path in _entries(warm.cache))
    targets = clone.root / "targets.yaml"
    new = tmp_path / "new"
    targets.write_text(f"cache: {{path: {new}, size: {largest / 1e6} MB}}\n{targets.read_text()}")
    assert clone.doit("tune=never").steps == STEPS
    assert 0 < sum(path.stat().st_size for path in _entries(new)) <= largest
    assert 0 < len(_entries(new)) < 4


def test_a_model_that_is_edited_while_it_is_simplified_is_not_stored(clone: DoitProject, tmp_path: Path) -> None:
    code = (
        "from tvmbuild.doit_adapter import actions\n"
        "run = actions.run_process\n"
        "def run_and_edit(step):\n"
        "    run(step)\n"
        "    with step.input('source').open('ab') as stream: stream.write(b'more')\n"
        "actions.run_process = run_and_edit\n"
    )
    dodo = clone.root / "dodo.py"
    dodo.write_text(code + dodo.read_text())
    clone.doit("simplify", TVMBUILD_CACHE=str(tmp_path / "new"))
    assert (clone.root / "build/models/digits/model.onnx").exists()
    assert _entries(tmp_path / "new") == []


def test_kill_9_while_storing_or_restoring(cache: Path, clone: DoitProject) -> None:
    environment = clone.environment(TVMBUILD_CACHE=str(cache), PYTHONUNBUFFERED="1")
    for step in STEPS:
        process = subprocess.Popen(
            [sys.executable, "-m", "doit"],
            cwd=clone.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_for_line(process, f".  {step}")
        process.kill()
        process.communicate(timeout=60)
        assert wait_until_gone(clone.root) == []
    ran = clone.doit(TVMBUILD_CACHE=str(cache))
    assert ran.code == 0, ran.output
    assert set(ran.steps) == set(_restored(ran))
    assert clone.temporaries() == []
    assert clone.doit().steps == []
