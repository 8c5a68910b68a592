"""Clones that share a cache folder, with real doit; with real stages once a day."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import onnx
import pytest
from doit_project import STEPS_ON_V3, DoitProject
from warm_cache import Warm, list_entries, list_restored, read_outputs


@pytest.mark.parametrize("arguments", [(), ("-n", "2"), ("-n", "2", "-P", "thread"), ("tune=never",)])
def test_a_fresh_clone_restores_every_step(
    warm: Warm, cache: Path, clone: DoitProject, arguments: tuple[str, ...]
) -> None:
    ran = clone.doit(*arguments, TVMBUILD_CACHE=str(cache))
    assert ran.code == 0, ran.output
    assert list_restored(ran) == STEPS_ON_V3
    assert "4 done (4 restored from the cache), 0 up to date" in ran.output
    assert "warning" not in ran.output
    assert read_outputs(clone) == read_outputs(warm.project)
    assert clone.temporaries() == []
    for log in (clone.root / "build/logs").iterdir():
        assert log.read_text().startswith("restored from the cache: ")
    assert clone.doit().steps == [], "without the cache, the state is as if the steps had run"


def test_the_yaml_file_names_the_cache_and_an_empty_variable_turns_it_off(cache: Path, clone: DoitProject) -> None:
    targets = clone.root / "targets.yaml"
    targets.write_text(f"cache: {{path: {os.path.relpath(cache, clone.root)}, size: 1 GB}}\n{targets.read_text()}")
    off = clone.doit("simplify", TVMBUILD_CACHE="")
    assert (off.steps, list_restored(off)) == (["simplify:digits"], [])
    shutil.rmtree(clone.root / "build")
    assert list_restored(clone.doit()) == STEPS_ON_V3


def test_a_lost_output_comes_back_from_the_cache(cache: Path, clone: DoitProject) -> None:
    clone.doit(TVMBUILD_CACHE=str(cache))
    package = clone.root / "build/cells/digits@v3/digits-v3.tar"
    good = package.read_bytes()
    package.write_bytes(good[:-1])
    ran = clone.doit(TVMBUILD_CACHE=str(cache))
    assert list_restored(ran) == ["compile:digits@v3"] == ran.steps
    assert package.read_bytes() == good


def test_a_users_edit_of_an_output_does_not_reach_the_cache(cache: Path, clone: DoitProject) -> None:
    before = {path: path.read_bytes() for path in list_entries(cache)}
    clone.doit(TVMBUILD_CACHE=str(cache))
    for path in (path for path in (clone.root / "build/cells").rglob("*") if path.is_file()):
        with path.open("ab") as stream:
            stream.write(b"edited")
    assert {path: path.read_bytes() for path in list_entries(cache)} == before
    assert list_restored(clone.doit(TVMBUILD_CACHE=str(cache))) == STEPS_ON_V3[1:]


def _record_files(project: DoitProject) -> list[Path]:
    return sorted((project.root / "records/v3").glob("*.json"))


def test_without_its_records_a_clone_does_not_get_another_clones_schedule(cache: Path, clone: DoitProject) -> None:
    shutil.rmtree(clone.root / "records")
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(cache))
    assert (ran.steps, list_restored(ran)) == (STEPS_ON_V3[:3], ["simplify:digits"])
    assert json.loads((clone.root / "build/cells/digits@v3/schedule.json").read_text())["schedule"] == {}


def test_schedules_of_several_records_are_kept_side_by_side(warm: Warm, cache: Path, clone: DoitProject) -> None:
    records = clone.root / "records"
    away = records.rename(clone.root / "away")
    clone.doit("tune", "tune=never", TVMBUILD_CACHE=str(cache))
    away.rename(records)
    shutil.rmtree(clone.root / "build")
    assert list_restored(clone.doit(TVMBUILD_CACHE=str(cache))) == STEPS_ON_V3
    assert read_outputs(clone) == read_outputs(warm.project)


def test_a_new_winner_is_tuned_and_compiled(cache: Path, clone: DoitProject) -> None:
    path = next(path for path in _record_files(clone) if len(json.loads(path.read_text())["records"]) > 1)
    data = json.loads(path.read_text())
    data["records"][1]["seconds"] = data["records"][0]["seconds"] / 2
    path.write_text(json.dumps(data))
    ran = clone.doit(TVMBUILD_CACHE=str(cache))
    assert (ran.steps, list_restored(ran)) == (STEPS_ON_V3, ["simplify:digits"])


def test_a_losing_record_changes_nothing(cache: Path, clone: DoitProject) -> None:
    path = _record_files(clone)[0]
    data = json.loads(path.read_text())
    slow = json.loads(json.dumps(data["records"][0])) | {"seconds": 9.0}
    slow["trace"]["decisions"] = []
    data["records"].append(slow)
    path.write_text(json.dumps(data))
    assert list_restored(clone.doit(TVMBUILD_CACHE=str(cache))) == STEPS_ON_V3


def test_what_is_missing_is_searched_and_not_restored(cache: Path, clone: DoitProject) -> None:
    path = _record_files(clone)[0]
    data = json.loads(path.read_text())
    data["searched"] = dict.fromkeys(data["searched"], 1)
    data["exhausted"] = []
    path.write_text(json.dumps(data))
    ran = clone.doit("tune", "tune=never", TVMBUILD_CACHE=str(cache))
    assert list_restored(ran) == STEPS_ON_V3[:2], "never: the winners are the same"
    shutil.rmtree(clone.root / "build")
    ran = clone.doit("tune", TVMBUILD_CACHE=str(cache))
    assert (ran.steps, list_restored(ran)) == (STEPS_ON_V3[:2], STEPS_ON_V3[:1])


def test_strict_is_told_what_is_uncovered(cache: Path, clone: DoitProject) -> None:
    ran = clone.doit("tune", "tune=never", "strict=1", TVMBUILD_CACHE=str(cache))
    assert ran.failed == ["tune:digits@v3"]
    assert "6 of 8 Tasks have no record" in ran.output


def test_another_model_target_or_option_is_not_restored(cache: Path, clone: DoitProject) -> None:
    model = onnx.load(clone.root / "digits.onnx")
    model.doc_string = "another model"
    onnx.save(model, clone.root / "digits.onnx")
    ran = clone.doit("simplify", TVMBUILD_CACHE=str(cache))
    assert (ran.steps, list_restored(ran)) == (STEPS_ON_V3[:1], [])
    clone.edit("targets.yaml", "x86-64-v3, mtriple", 'x86-64-v3, glibc: "2.31", mtriple')
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(cache))
    assert "compile:digits@v3" in ran.steps
    assert "compile:digits@v3" not in list_restored(ran)


def test_external_weights_are_part_of_the_key(cache: Path, clone: DoitProject) -> None:
    source = clone.root / "digits.onnx"
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))  # raw bytes, since only these can be external
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    weights = clone.root / "weights.bin"
    first, entries = weights.read_bytes(), len(list_entries(cache))
    for data, expected in ((first, []), (first, STEPS_ON_V3[:1]), (bytes(8) + first[8:], []), (first, STEPS_ON_V3[:1])):
        shutil.rmtree(clone.root / "build", ignore_errors=True)
        weights.write_bytes(data)
        assert list_restored(clone.doit("simplify", TVMBUILD_CACHE=str(cache))) == expected
    assert len(list_entries(cache)) == entries + 2
