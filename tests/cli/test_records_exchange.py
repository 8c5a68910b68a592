"""The commands `tvmbuild records verify`, `import` and `export` with the real compiler, on a few shipped records."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.cli import main
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

pytestmark = pytest.mark.compiler

FEW = 16
"""The number of candidates; a search with that few has all of them in its file, a longer one only the best."""
TARGETS = """
targets:
  pc: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}
  new: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}
  old: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 2}
"""


@pytest.fixture
def root(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose target `pc` has three Tasks of the shipped records."""
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    (tmp_path / "models.yaml").write_text("models:\n  net: {source: {path: net.onnx}}\n")
    (tmp_path / "targets.yaml").write_text(TARGETS)
    folder = tmp_path / "records" / "pc"
    folder.mkdir(parents=True)
    shipped = sorted((project_root / "records" / "x86-64-v3").glob("????????????????.json"))
    for path in [each for each in shipped if (file := read_task_file(each)) and file.most_searched > FEW][:3]:
        shutil.copyfile(path, folder / path.name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def files(root: Path, target: str) -> list[TaskFile]:
    found = [read_task_file(path) for path in sorted((root / "records" / target).glob("????????????????.json"))]
    return [file for file in found if file is not None]


def test_verify_finds_what_does_not_replay_and_forgets_what_does_again(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["records", "verify"]) == 0
    assert capsys.readouterr().out == "pc: all good\n"
    first, second, third = files(root, "pc")
    hostile = Record('{"decisions":[],"instructions":[]}', 1e-12, first.records[0].measured_on, 2, "0.27.0")
    folder = root / "records" / "pc"
    write_task_file(record_path(folder, first.key), replace(first, records=(hostile, *first.records[:2])))
    write_task_file(record_path(folder, second.key), replace(second, workload=third.workload))
    record_path(folder, third.key).write_text("{")
    assert main(["records", "verify", "pc"]) == 1
    said = capsys.readouterr().out
    assert f"records/pc/{first.key}.json ({first.name}): the trace is empty: TVM ignores it\n" in said
    assert f"records/pc/{second.key}.json ({second.name}): its workload has the key {third.key}\n" in said
    assert f"records/pc/{third.key}.json: damaged record file" in said
    assert (root / "build" / "quarantine" / "pc" / f"{first.key}.json").exists()
    for file in (first, second, third):
        write_task_file(record_path(folder, file.key), file)
    assert main(["records", "verify", "pc"]) == 0
    assert not (root / "build" / "quarantine" / "pc" / f"{first.key}.json").exists()


@pytest.mark.nightly
def test_a_hostile_target_of_one_file_does_not_end_the_check_of_the_others(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = files(root, "pc")
    folder = root / "records" / "pc"
    for file, target in (
        (first, '{"attributes":{"mcpu":"nonsense"},"host":{},"kind":"llvm"}'),
        (second, '{"attributes":{"kind":[1,"a"],"num-cores":"many"},"host":{"mcpu":1},"kind":"[/x]"}'),
    ):
        write_task_file(record_path(folder, file.key), replace(file, target=target, records=file.records[:1]))
    write_task_file(record_path(folder, third.key), replace(third, records=third.records[:1]))
    assert main(["records", "verify", "pc"]) == 1
    said = capsys.readouterr().out
    assert f"records/pc/{first.key}.json ({first.name}): LLVM knows no CPU nonsense" in said
    assert f"records/pc/{second.key}.json ({second.name}): " in said
    assert third.key not in said
    assert main(["records", "export", str(root / "database"), "--target", "pc", "--measured-on", "znver9"]) == 1
    assert "no record was measured on znver9\n  hint: " in capsys.readouterr().err
    assert not (root / "database").exists()


@pytest.mark.nightly
def test_what_is_exported_is_a_database_of_the_stock_tvm_and_comes_back(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tvm
    from tvm.s_tir.meta_schedule.database import JSONDatabase

    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
    from tvmbuild.replay.traces import load_workload

    skip_tensor_intrinsics()
    ours = files(root, "pc")
    records = sum(len(file.records) for file in ours)
    database = root / "database"
    assert main(["records", "export", str(database), "--target", "pc"]) == 0
    assert capsys.readouterr().out == f"wrote {database}: {records} records of 3 Tasks\n"
    stock = JSONDatabase(work_dir=str(database))
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
    for file in ours:
        found = stock.query_tuning_record(load_workload(file.workload), target, "main")
        assert float(found.run_secs[0]) == pytest.approx(file.records[0].seconds)
    assert main(["records", "export", str(database), "--target", "pc"]) == 1
    assert "exists and is not empty" in capsys.readouterr().err

    lines = (database / "database_tuning_record.json").read_text().splitlines()
    failed = json.loads(lines[0])
    failed[1][1] = [1e10]
    (database / "database_tuning_record.json").write_text("\n".join([*lines, json.dumps(failed)]) + "\n")
    assert main(["records", "import", str(database), "--target", "new", "--measured-on", "emeraldrapids"]) == 0
    assert f"{records} records read, 1 failed candidate left out, 0 that" in capsys.readouterr().out
    for known, after in zip(ours, files(root, "new"), strict=True):
        assert after.key == known.key
        assert [(r.trace, r.seconds) for r in after.records] == [(r.trace, r.seconds) for r in known.records]
    before = {path: path.read_bytes() for path in (root / "records").rglob("*.json")}
    assert main(["records", "import", str(database), "--target", "pc", "--measured-on", "emeraldrapids"]) == 0
    assert "\nnothing new\n" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in (root / "records").rglob("*.json")} == before


@pytest.mark.nightly
def test_a_database_of_another_target_or_a_ruined_one_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = root / "database"
    assert main(["records", "export", str(database), "--target", "pc"]) == 0
    assert main(["records", "import", str(database)]) == 1
    assert "is a database\n  hint: name its target: --target NAME" in capsys.readouterr().err
    assert main(["records", "import", str(database), "--target", "old"]) == 1
    assert "made for another target: mcpu is x86-64-v3 there and x86-64-v2 here" in capsys.readouterr().err
    good = (database / "database_tuning_record.json").read_text()
    for line, said in (
        ("{", "line 1: not a tuning record"),
        ("[99, [[[], []], [1.0], {}, []]]", "made for another target: kind is absent there"),
        (json.dumps([99, json.loads(good.splitlines()[0])[1]]), "line 1: there is no workload 99"),
    ):
        (database / "database_tuning_record.json").write_text(f"{line}\n{good}")
        assert main(["records", "import", str(database), "--target", "new"]) == 1
        assert said in capsys.readouterr().err
    (database / "database_workload.json").write_text('["1","zz"]\n')
    assert main(["records", "import", str(database), "--target", "new"]) == 1
    assert "database_workload.json, line 1: not a workload" in capsys.readouterr().err
    assert not (root / "records" / "new").exists()
