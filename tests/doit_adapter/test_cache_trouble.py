"""A cache folder that is damaged, full, read-only or hit by a kill -9: no step fails, no wrong file is used."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from doit_project import QUICK, STEPS_ON_V3, DoitProject, wait_for_line, wait_until_gone
from small_disk import mount_disk
from warm_cache import Warm, list_entries, list_restored, read_outputs

pytestmark = QUICK


@pytest.mark.parametrize("damage", ["output", "manifest"])
def test_a_damaged_entry_is_replaced_and_never_used(warm: Warm, cache: Path, clone: DoitProject, damage: str) -> None:
    for entry in list_entries(cache):
        good = entry.read_bytes()
        entry.write_bytes(good[:-7] if damage == "output" else good.replace(b'"size":', b'"size":1', 1))
    ran = clone.doit("tune=never", TVMBUILD_CACHE=str(cache))
    assert ran.code == 0, ran.output
    assert (ran.steps, list_restored(ran)) == (STEPS_ON_V3, [])
    assert ran.output.count("warning: a damaged entry of the cache is not used: ") == 4
    package = "cells/digits@v3/digits-v3.tar"
    assert read_outputs(clone)[package] == read_outputs(warm.project)[package]
    shutil.rmtree(clone.root / "build")
    again = clone.doit("tune=never", TVMBUILD_CACHE=str(cache))
    assert (list_restored(again), "warning" in again.output) == (STEPS_ON_V3, False)


def test_failures_are_not_cached(clone: DoitProject, tmp_path: Path) -> None:
    (clone.root / "digits.onnx").write_bytes(b"no model")
    for _ in range(2):
        assert clone.doit("simplify", TVMBUILD_CACHE=str(tmp_path / "new")).failed == ["simplify:digits"]
    assert list_entries(tmp_path / "new") == []


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
    """A cache folder on its own disk with room for a simplified model and little more."""
    with mount_disk(tmp_path / "disk", "size=256k") as folder:
        yield folder


@pytest.mark.mount
def test_a_full_disk_is_one_warning_and_what_fits_is_used(clone: DoitProject, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(150_000))
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(small_disk))
    assert (ran.code, ran.steps) == (0, STEPS_ON_V3[:3]), ran.output
    assert re.findall(r"^warning: .*", ran.output, re.MULTILINE) == [
        f"warning: the cache {small_disk} cannot be written: No space left on device; nothing is added to it"
    ]
    assert list(small_disk.rglob("*.tmp")) == []
    stored = len(list_entries(small_disk))
    shutil.rmtree(clone.root / "build")
    assert len(list_restored(clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(small_disk)))) == stored


@pytest.mark.mount
def test_a_read_only_cache_is_used_and_not_added_to(cache: Path, clone: DoitProject, small_disk: Path) -> None:
    simplified = min(list_entries(cache), key=lambda path: b'"reference"' not in path.read_bytes())
    place = small_disk / simplified.relative_to(cache)
    place.parent.mkdir(parents=True)
    shutil.copyfile(simplified, place)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ran = clone.doit("compile", "tune=never", TVMBUILD_CACHE=str(small_disk))
    assert (ran.code, ran.steps, list_restored(ran)) == (0, STEPS_ON_V3[:3], STEPS_ON_V3[:1]), ran.output
    assert re.findall(r"^warning: .*", ran.output, re.MULTILINE) == [
        f"warning: the cache {small_disk} cannot be written: Read-only file system; nothing is added to it"
    ]


def test_the_size_bounds_the_cache(warm: Warm, clone: DoitProject, tmp_path: Path) -> None:
    largest = max(path.stat().st_size for path in list_entries(warm.cache))
    targets = clone.root / "targets.yaml"
    new = tmp_path / "new"
    targets.write_text(f"cache: {{path: {new}, size: {largest / 1e6} MB}}\n{targets.read_text()}")
    assert clone.doit("tune=never").steps == STEPS_ON_V3
    assert 0 < sum(path.stat().st_size for path in list_entries(new)) <= largest
    assert 0 < len(list_entries(new)) < 4


def test_a_model_that_is_edited_while_it_is_simplified_is_not_stored(clone: DoitProject, tmp_path: Path) -> None:
    code = (
        "from tvmbuild.engine.executor import Here\n"
        "run = Here.run\n"
        "def run_and_edit(here, step, inputs):\n"
        "    run(here, step, inputs)\n"
        "    with step.input('source').open('ab') as stream: stream.write(b'more')\n"
        "Here.run = run_and_edit\n"
    )
    dodo = clone.root / "dodo.py"
    dodo.write_text(code + dodo.read_text())
    clone.doit("simplify", TVMBUILD_CACHE=str(tmp_path / "new"))
    assert (clone.root / "build/models/digits/model.onnx").exists()
    assert list_entries(tmp_path / "new") == []


def test_kill_9_while_restoring(cache: Path, clone: DoitProject) -> None:
    for step in STEPS_ON_V3:
        # The kill before this one may have come after the end of this step.
        (clone.root / "build/.state" / f"{step.replace(':', '%3A')}.json").unlink(missing_ok=True)
        process = clone.start(TVMBUILD_CACHE=str(cache))
        wait_for_line(process, f".  {step}")
        process.kill()
        process.communicate(timeout=60)
        assert wait_until_gone(clone.root) == []
    ran = clone.doit(TVMBUILD_CACHE=str(cache))
    assert ran.code == 0, ran.output
    assert set(ran.steps) == set(list_restored(ran))
    assert [path for path in clone.temporaries() if not path.name.startswith(".report.")] == []
    assert clone.doit().steps == []
