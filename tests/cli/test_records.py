"""The actions of `tvmbuild records` that need no compiler, from a subfolder of a project: messages and effects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from doit_project import DoitProject
from finished_project import (
    CONV,
    POOL,
    SHARED,
    TASKS,
    here,
    put,
    task_file,
    trace,
    tune_options,
    write_finished_project,
)

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.cli import main
from tvmbuild.records.quarantine import Fault, add_faults, digest, installed_tvm
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

CUDA = '{"attributes":{},"host":{},"kind":"cuda"}'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoitProject:
    project = write_finished_project(tmp_path)
    inner = project.root / "deep" / "down"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(project.runtime))
    return project


def folder(project: DoitProject, target: str = "v3") -> Path:
    return Layout(project.root).records(target)


def read(project: DoitProject, key: str, target: str = "v3") -> TaskFile:
    file = read_task_file(record_path(folder(project, target), key))
    assert file is not None
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["records", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def quarantine(project: DoitProject, file: TaskFile, number: int = 0) -> None:
    fault = Fault("trace", digest(file.records[number].trace), "it gives no code", installed_tvm(), file.target)
    add_faults(folder(project), file.key, [fault])


def test_ls_sums_up_each_target_and_class(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = Record(trace(9), 1e-3, "cortex-a72", 4, "0.27.0")
    put(
        project,
        replace(read(project, POOL), records=(elsewhere,), searched=FrozenMap({"cortex-a72": 8}), spent=FrozenMap()),
    )
    code, said = run(capsys, "ls")
    rows = [line.split() for line in said.splitlines() if line.startswith(" v3")]
    assert code == 0
    assert rows == [
        ["v3", "cortex-a72", "1", "of", "3", "1", "8", "?", "1", "ms"],
        ["v3", here(), "2", "of", "3", "4", "128", "4.27", "min", "4", "us"],
    ]


@pytest.mark.usefixtures("project")
def test_ls_of_one_model_has_its_tasks_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, "ls", "-l", "--model", "sec*", "v3")
    assert code == 0
    assert [line.split()[:3] for line in said.splitlines() if line.startswith(" v3")] == [["v3", SHARED, "conv2d_add"]]
    assert run(capsys, "ls", "--model", "none*", "v3")[1].startswith("error: no tuned cell matches none*@v3\n")


def test_ls_says_what_is_not_used(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    record_path(folder(project), POOL).write_text("{")
    quarantine(project, read(project, CONV))
    said = run(capsys, "ls")[1]
    assert f"not used: records/v3/{POOL}.json: damaged record file (JSONDecodeError" in said
    assert f"not used: a record in records/v3/{CONV}.json: it gives no code\n" in said


@pytest.mark.usefixtures("project")
def test_an_unknown_target_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ls", "v33") == (
        1,
        "error: no target with records matches 'v33'\n  hint: Did you mean v3? There are v3.\n",
    )


def test_show_tells_a_task_by_the_beginning_of_its_key(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    file = read(project, CONV)
    quarantine(project, file, 1)
    code, said = run(capsys, "show", "ccc")
    assert code == 0
    assert said.splitlines() == [
        f"v3: {CONV}",
        "  Task       conv2d_add_relu",
        "  arguments  unknown",
        '  target     llvm mcpu="x86-64-v3", mtriple="x86_64-linux-gnu", num-cores=1',
        "  TVM        0.27.0",
        f"  {here()}: 64 candidates in 2.13 min",
        f"        2 us  1 thread, TVM 0.27.0, trace {digest(file.records[0].trace)[:12]}",
        f"        3 us  1 thread, TVM 0.27.0, trace {digest(file.records[1].trace)[:12]}  not used: it gives no code",
    ]
    assert run(capsys, "show", "9")[1].startswith("error: no Task's key begins with '9'\n")
    assert run(capsys, "show", "")[1].startswith(f"error: 3 Tasks' keys begin with '': {CONV}, {SHARED}, {POOL}\n")


def test_show_reads_shapes_of_a_shipped_record(
    project: DoitProject, project_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = (project_root / "records" / "x86-64-v3").glob("03308be50bdf4ccf.json")
    (folder(project) / source.name).write_bytes(source.read_bytes())
    said = run(capsys, "show", "0330")[1]
    assert (
        "  arguments  float32[1, 7, 7, 576], float32[1, 1, 576, 160], float32[1, 1, 1, 160], float32[1, 7, 7, 160]\n"
        in said
    )


def test_prune_drops_what_no_cell_uses(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    unused = replace(read(project, CONV), key="f" * 16)
    other = replace(read(project, POOL), target='{"attributes":{},"host":{},"kind":"llvm"}')
    put(project, unused)
    put(project, other)
    put(project, unused, "gone")
    lines = [
        f"records/gone/{unused.key}.json: no cell of gone has the Task conv2d_add_relu",
        f"records/v3/{POOL}.json: made for other attributes than v3 has now",
        f"records/v3/{unused.key}.json: no cell of v3 has the Task conv2d_add_relu",
    ]
    assert run(capsys, "prune", "--dry-run") == (0, "".join(f"would remove {line}\n" for line in lines) + "3 files\n")
    assert read(project, unused.key)
    assert run(capsys, "prune", "v3") == (0, "".join(f"removed {line}\n" for line in lines[1:]) + "2 files\n")
    assert sorted(path.stem for path in folder(project).glob("*.json")) == sorted([CONV, SHARED])
    assert run(capsys, "prune", "v3") == (0, "nothing to remove\n")


def test_prune_refuses_when_a_cells_tasks_are_unknown(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    Layout(project.root).cell_file("first", "v3", "tasks.json").unlink()
    before = sorted(folder(project).iterdir())
    assert run(capsys, "prune") == (
        1,
        """error: the Tasks of first@v3 are not known
  hint: run `doit 'tune:first@v3' tune=never` first, or prune with --force.
""",
    )
    assert sorted(folder(project).iterdir()) == before
    assert run(capsys, "prune", "--force")[0] == 0
    assert [path.stem for path in folder(project).iterdir()] == [SHARED]


def test_prune_refuses_when_a_model_has_changed_since_its_tasks_were_found(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "digits.onnx").write_bytes(b"another model")
    before = sorted(folder(project).iterdir())
    code, said = run(capsys, "prune")
    assert (code, said.splitlines()[0]) == (1, "error: the Tasks of first@v3 are not known")
    assert sorted(folder(project).iterdir()) == before


def test_prune_quarantined_drops_that_alone(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    record_path(folder(project), POOL).write_text("{")
    quarantine(project, read(project, CONV), 1)
    quarantine(project, read(project, SHARED), 0)
    quarantine(project, read(project, SHARED), 1)
    code, said = run(capsys, "prune", "--quarantined")
    assert code == 0
    assert f"removed records/v3/{CONV}.json: 1 of 2 records: it gives no code\n" in said
    assert f"removed records/v3/{POOL}.json: damaged record file" in said
    assert [record.seconds for record in read(project, CONV).records] == [2e-6]
    assert [path.stem for path in folder(project).iterdir()] == [CONV]


def test_merge_brings_in_what_is_new_and_counts_it(
    project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, other = read(project, CONV), tmp_path / "other"
    faster = Record(trace(7), 1e-6, here(), 1, "0.27.0")
    write_task_file(record_path(other, CONV), replace(ours, records=(*ours.records, faster)))
    write_task_file(record_path(other, "f" * 16), replace(ours, key="f" * 16))
    (other / "target.lock.json").write_text("{}")
    into = str(folder(project))
    said = "1 file would be added, 1 would be changed; 3 records would be added or made faster\n"
    assert run(capsys, "merge", into, str(other), "--dry-run") == (0, said)
    assert read(project, CONV) == ours
    assert run(capsys, "merge", into, str(other)) == (
        0,
        "1 file added, 1 changed; 3 records added or made faster\n",
    )
    assert read(project, CONV).records[0] == faster
    assert not (folder(project) / "target.lock.json").exists()
    assert run(capsys, "merge", into, str(other)) == (0, "nothing new\n")
    assert run(capsys, "merge", str(folder(project).parent), str(tmp_path / "nowhere"))[0] == 1


def test_merge_writes_all_or_nothing(project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, other = read(project, SHARED), tmp_path / "other"
    write_task_file(record_path(other, CONV), replace(read(project, CONV), searched=FrozenMap({"znver4": 999})))
    write_task_file(record_path(other, SHARED), replace(ours, target=CUDA))
    write_task_file(record_path(other, POOL), replace(read(project, POOL), target=CUDA))
    before = {path: path.read_bytes() for path in folder(project).iterdir()}
    code, said = run(capsys, "merge", str(folder(project)), str(other))
    assert code == 1
    assert "error: 2 of 3 files made for other target attributes:\n" in said
    assert f"  {record_path(other, SHARED)} (conv2d_add): " in said
    assert f"  {record_path(other, POOL)} (max_pool): " in said
    said = run(capsys, "merge", str(folder(project)), str(other), "--skip-others", "--dry-run")[1]
    assert said.startswith("0 files would be added, 1 would be changed; 0 records would be added")
    assert said.endswith("; 2 files for other attributes left out\n")
    record_path(other, SHARED).write_text("{")
    assert "damaged record file" in run(capsys, "merge", str(folder(project)), str(other))[1]
    assert {path: path.read_bytes() for path in folder(project).iterdir()} == before


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("file", "are not of the same kind"),
        ("empty", "holds no record file"),
        ("targets", "holds targets, "),
    ],
)
def test_merge_of_unlike_things_is_refused(
    other: str, said: str, project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / other
    path.mkdir()
    if other == "file":
        path = record_path(folder(project), CONV)
    elif other == "targets":
        write_task_file(path / "v3" / f"{CONV}.json", read(project, CONV))
    code, text = run(capsys, "merge", str(folder(project)), str(path))
    assert (code, said in text) == (1, True), text


def test_import_of_record_files_wants_their_target(
    project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    write_task_file(record_path(other, "f" * 16), task_file(TASKS["first"][0], tune_options(project), [1e-6]))
    write_task_file(record_path(other, "f" * 16), replace(read(project, CONV), key="f" * 16))
    assert "holds the records of one target\n  hint: name it: --target NAME" in run(capsys, "import", str(other))[1]
    said = run(capsys, "import", str(other), "--target", "v2")[1]
    assert said.startswith("error: 1 of 1 file made for other target attributes:\n")
    assert run(capsys, "import", str(other), "--target", "v2", "--skip-others") == (
        0,
        "nothing new; 1 file for other attributes left out\n",
    )
    assert run(capsys, "import", str(other), "--target", "v3") == (
        0,
        "1 file added, 0 changed; 2 records added or made faster\n",
    )
    assert run(capsys, "import", str(other), "--target", "v33")[1] == (
        "error: targets.yaml has no target v33\n  hint: Did you mean v3? There are v2, v3.\n"
    )
    both = tmp_path / "both"
    write_task_file(both / "v2" / f"{CONV}.json", read(project, CONV))
    assert run(capsys, "import", str(both))[0] == 0
    assert read(project, CONV, "v2")


@pytest.mark.parametrize("action", ["import", "merge"])
def test_another_clones_root_stands_for_its_records(
    action: str, project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "models.yaml").write_text("models: {}\n")
    into = [str(project.root)] if action == "merge" else []
    code, said = run(capsys, action, *into, str(clone))
    assert (code, "holds no record file\n  hint: expected is a folder with KEY.json" in said) == (1, True), said
    for inside in ("records/v3", "build/cells/old/records/v3"):
        write_task_file(record_path(clone / inside, "f" * 16), replace(read(project, CONV), key="f" * 16))
    said = "1 file added, 0 changed; 2 records added or made faster\n"
    assert run(capsys, action, *into, str(clone)) == (0, said)
    assert read(project, "f" * 16)
    assert sorted(path.name for path in Layout(project.root).records("").iterdir()) == ["v3"]


def test_a_foreign_key_in_a_file_is_damage_and_no_path(
    project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, victim = record_path(folder(project), CONV), tmp_path / "victim.json"
    victim.write_text("{}")
    good = path.read_text()
    for key in (str(victim.with_suffix("")), "../../../victim", POOL):
        path.write_text(good.replace(f'"{CONV}"', f'"{key}"'))
        assert "damaged record file (ValueError" in run(capsys, "show", CONV)[1]
        assert run(capsys, "prune", "--quarantined", "--dry-run")[1].startswith(f"would remove records/v3/{CONV}.json")
    assert victim.read_text() == "{}"


def test_a_name_that_looks_like_markup_or_steers_a_terminal_is_shown_as_it_is(
    project: DoitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    put(project, replace(read(project, CONV), name="conv[/x]\x1b[2J"))
    code, said = run(capsys, "ls", "-l")
    assert (code, "conv[/x]?[2J" in said, "\x1b" in said) == (0, True, False)
    code, said = run(capsys, "show", CONV)
    assert (code, "  Task       conv[/x]?[2J\n" in said) == (0, True)


@pytest.mark.usefixtures("project")
def test_a_merge_driver_called_wrongly_says_how_it_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, "merge-driver", "one")
    assert code == 1
    assert "a merge driver takes git's %O %A %B %P" in said
