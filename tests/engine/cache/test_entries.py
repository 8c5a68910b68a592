"""The folder of entries: checked when read, bounded, safe for several processes, killed or not."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmbuild.base.files import canonical_json, sha256_file
from tvmbuild.engine.cache.entries import (
    DamagedEntry,
    EntryTooLarge,
    evict,
    find_entries,
    measure_usage,
    read_entry,
    touch_entry,
    write_entry,
)

KEY = "ab" * 32
OTHER = "ab" + "cd" * 31
LIMIT = 1_000_000
CONTENTS = {"model": b"some weights", "info": b"{}", "empty": b""}


def _store(folder: Path, key: str = KEY, contents: dict[str, bytes] | None = None, limit: int = LIMIT) -> bool:
    made = folder.parent / "made"
    made.mkdir(exist_ok=True)
    outputs = {}
    for role, data in (CONTENTS if contents is None else contents).items():
        (made / role).write_bytes(data)
        outputs[role] = (made / role, sha256_file(made / role))
    return write_entry(folder, key, outputs, limit)


def _read(entry: Path, to: Path) -> dict[str, bytes]:
    to.mkdir(exist_ok=True)
    read_entry(entry, {role: to / role for role in CONTENTS})
    return {path.name: path.read_bytes() for path in to.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_what_is_stored_is_read(folder: Path, tmp_path: Path) -> None:
    assert find_entries(folder, KEY) == []
    assert _store(folder)
    (entry,) = find_entries(folder, KEY)
    assert _read(entry, tmp_path / "read") == CONTENTS
    assert find_entries(folder, OTHER) == []
    assert measure_usage(folder).entries == 1
    assert measure_usage(folder).size == entry.stat().st_size


def test_storing_the_same_again_adds_nothing_and_other_outputs_are_another_entry(folder: Path) -> None:
    for _ in range(2):
        assert _store(folder)
    assert len(find_entries(folder, KEY)) == 1
    assert _store(folder, contents=CONTENTS | {"info": b"[]"})
    assert len(find_entries(folder, KEY)) == 2


def test_every_changed_byte_is_noticed(folder: Path, tmp_path: Path) -> None:
    _store(folder)
    (entry,) = find_entries(folder, KEY)
    good = entry.read_bytes()
    for place in range(len(good)):
        entry.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(DamagedEntry):
            _read(entry, tmp_path / "read")


def test_every_truncation_and_an_appended_byte_are_noticed(folder: Path, tmp_path: Path) -> None:
    _store(folder)
    (entry,) = find_entries(folder, KEY)
    good = entry.read_bytes()
    for damaged in (*(good[:size] for size in range(len(good))), good + b"x"):
        entry.write_bytes(damaged)
        with pytest.raises(DamagedEntry):
            _read(entry, tmp_path / "read")


def test_an_entry_under_another_key_is_refused(folder: Path, tmp_path: Path) -> None:
    _store(folder)
    (entry,) = find_entries(folder, KEY)
    entry.rename(entry.with_name(entry.name.replace(KEY, OTHER)))
    (moved,) = find_entries(folder, OTHER)
    with pytest.raises(DamagedEntry, match="its manifest is of another step"):
        _read(moved, tmp_path / "read")


@pytest.mark.parametrize("roles", [{"model"}, {*CONTENTS, "more"}, {"model", "info", "other"}])
def test_an_entry_with_other_roles_is_refused(folder: Path, tmp_path: Path, roles: set[str]) -> None:
    _store(folder)
    (entry,) = find_entries(folder, KEY)
    with pytest.raises(DamagedEntry):
        read_entry(entry, {role: tmp_path / role for role in roles})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
HOSTILE = [b"[" * 100_000, b'{"outputs":[{"role":"a","size":Infinity,"sha256":""}]}', b'{"outputs":[{"size":1e999}]}']
ROWS = st.fixed_dictionaries({"role": st.sampled_from(["a", "../a"]) | JSON, "size": JSON, "sha256": JSON})
MANIFESTS = JSON | st.fixed_dictionaries(
    {"format": st.just(1) | JSON, "key": st.just(KEY) | JSON, "outputs": JSON | st.lists(ROWS, max_size=3)}
)


@given(
    manifest=MANIFESTS.map(lambda value: json.dumps(value).encode())
    | st.sampled_from(HOSTILE)
    | st.binary(max_size=50),
    body=st.binary(),
)
def test_a_manifest_that_somebody_wrote_is_refused_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, manifest: bytes, body: bytes
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    line = manifest.replace(b"\n", b"") + b"\n"
    entry = folder / f"{KEY}-{hashlib.sha256(line).hexdigest()[:16]}.step"
    entry.write_bytes(line + body)
    with pytest.raises(DamagedEntry):
        read_entry(entry, {"a": folder / "a"})
    assert {path.name for path in folder.iterdir()} <= {entry.name, "a"}


def test_a_file_that_no_longer_has_its_digest_is_not_stored(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_bytes(b"before")
    digest = sha256_file(output)
    for later in (b"after!", b"longer than before"):
        output.write_bytes(later)
        assert not write_entry(folder, KEY, {"model": (output, digest)}, LIMIT)
    assert measure_usage(folder).entries == 0
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def _key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def test_the_least_recently_used_entries_go(folder: Path) -> None:
    for number in range(4):
        _store(folder, _key(number), {"model": bytes(1000)})
        (entry,) = find_entries(folder, _key(number))
        os.utime(entry, (1000 + number, 1000 + number))
    touch_entry(find_entries(folder, _key(0))[0])
    size = measure_usage(folder).size // 4
    assert _store(folder, _key(4), {"model": bytes(1000)}, limit=3 * size)
    left = [number for number in range(5) if find_entries(folder, _key(number))]
    assert left == [0, 3, 4]
    assert measure_usage(folder).size <= 3 * size


def test_outputs_larger_than_the_limit_are_not_stored_and_push_nothing_out(folder: Path) -> None:
    _store(folder)
    with pytest.raises(EntryTooLarge):
        _store(folder, OTHER, {"model": bytes(2000)}, limit=1000)
    assert [len(find_entries(folder, key)) for key in (KEY, OTHER)] == [1, 0]


def test_nothing_else_in_the_folder_is_touched(folder: Path) -> None:
    _store(folder)
    (entry,) = find_entries(folder, KEY)
    strangers = [
        folder / "notes.txt",
        folder / "steps/notes.txt",
        entry.parent / "notes.txt",
        folder / "steps/ab/x.step",
    ]
    for path in strangers:
        path.write_text("mine")
    evict(folder, 0)
    assert not entry.exists()
    assert all(path.read_text() == "mine" for path in strangers)


def test_what_killed_writers_left_goes_after_a_day(folder: Path) -> None:
    _store(folder)
    (entry,) = find_entries(folder, KEY)
    old, new = (entry.with_name(f".{entry.name}.{name}.tmp") for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    evict(folder, LIMIT)
    assert (old.exists(), new.exists(), entry.exists()) == (False, True, True)


WRITER = """
import sys
from pathlib import Path
from tvmbuild.base.files import sha256_file
from tvmbuild.engine.cache.entries import write_entry
folder, output, seed, count, limit = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
for number in range(seed, seed + count):
    key = f"{number % 8:02x}" * 32
    output.write_bytes(bytes([number % 8]) * 50_000)
    assert write_entry(folder, key, {"model": (output, sha256_file(output))}, limit)
"""


def _start_writer(folder: Path, output: Path, *numbers: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(output), *map(str, numbers)])


def test_processes_that_store_and_evict_at_once(folder: Path, tmp_path: Path) -> None:
    """Each key is stored twice at once, with room for half of the keys: every store succeeds, entries stay whole."""
    limit = 4 * 50_500
    writers = [_start_writer(folder, tmp_path / f"output{n}", n, 200, limit) for n in range(2)]
    while any(writer.poll() is None for writer in writers):
        for number in range(8):
            _check_entries(folder, f"{number:02x}" * 32, bytes([number]) * 50_000, tmp_path / "read")
    assert [writer.returncode for writer in writers] == [0, 0]
    evict(folder, limit)
    usage = measure_usage(folder)
    assert 0 < usage.size <= limit
    assert list(folder.rglob("*.tmp")) == []


def _check_entries(folder: Path, key: str, expected: bytes, to: Path) -> None:
    for entry in find_entries(folder, key):
        try:
            read_entry(entry, {"model": to})
        except FileNotFoundError:
            continue
        assert to.read_bytes() == expected


BIG_WRITER = """
import sys
from pathlib import Path
from tvmbuild.engine.cache.entries import write_entry
folder, output = map(Path, sys.argv[1:3])
write_entry(folder, sys.argv[4], {"model": (output, sys.argv[3])}, 10**12)
"""


def test_kill_9_while_storing_leaves_nothing_that_is_used(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as stream:
        stream.truncate(400_000_000)  # sparse: a long copy from nothing
    digest = sha256_file(output)
    writer = subprocess.Popen([sys.executable, "-c", BIG_WRITER, str(folder), str(output), digest, KEY])
    while not any(path.stat().st_size for path in folder.rglob("*.tmp")):
        assert writer.poll() is None
        time.sleep(0.001)
    writer.kill()
    assert writer.wait() < 0
    assert find_entries(folder, KEY) == []
    assert measure_usage(folder).entries == 0
    (left,) = folder.rglob("*.tmp")
    os.utime(left, (0, 0))
    assert _store(folder)
    assert not left.exists()
    assert len(find_entries(folder, KEY)) == 1


def test_the_manifest_is_one_readable_line(folder: Path) -> None:
    _store(folder, contents={"model": b"abc"})
    (entry,) = find_entries(folder, KEY)
    line, _, body = entry.read_bytes().partition(b"\n")
    assert body == b"abc"
    row = {"role": "model", "sha256": hashlib.sha256(b"abc").hexdigest(), "size": 3}
    assert line.decode() == canonical_json({"format": 1, "key": KEY, "outputs": [row]})
