"""A dump holds the module after each pass that changed it, and a table of all passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tvm

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import build_package
from tvmbuild.compiler.dump import DUMP_IR, TABLE, describe_change, format_table, record_passes
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.package.metadata import PackageTarget

SaveModel = Callable[..., Path]


def test_only_passes_that_changed_something_leave_a_file(
    save_convnet: SaveModel, cpu: tvm.target.Target, tmp_path: Path
) -> None:
    with record_passes(tmp_path / "ir") as ran:
        lower(import_onnx(save_convnet()), cpu)
    written = sorted(path.name for path in (tmp_path / "ir").glob("*.py"))
    fired = [f"{number:03}-{each.phase}-{each.name}.py" for number, each in enumerate(ran, 1) if each.changed]
    assert written == ["000-imported.py", *fired]
    assert "nn.conv2d" in (tmp_path / "ir" / "000-imported.py").read_text()
    assert "nn.conv2d" not in (tmp_path / "ir" / fired[-1]).read_text()
    assert (tmp_path / "ir" / TABLE).read_text().splitlines() == format_table(ran)


def test_the_table_says_what_each_pass_changed(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    with record_passes() as ran:
        lower(import_onnx(save_convnet()), cpu)
    changed = {each.name: each.changed for each in ran}
    assert re.search(r"-\d nn\.conv2d.*\+\d+ call_tir", changed["LegalizeOps"])
    assert changed["FuseAttention"] == ""
    assert format_table(ran)[-1].startswith(
        f"{len(ran)} passes, {sum(bool(each) for each in changed.values())} changed"
    )


def test_a_dump_replaces_the_one_before(save_convnet: SaveModel, cpu: tvm.target.Target, tmp_path: Path) -> None:
    (tmp_path / "050-operators-Gone.py").write_text("")
    (tmp_path / "mine.py").write_text("")
    with record_passes(tmp_path):
        lower(import_onnx(save_convnet()), cpu)
    assert not (tmp_path / "050-operators-Gone.py").exists()
    assert (tmp_path / "mine.py").exists()


def test_the_table_is_written_when_a_pass_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), record_passes(tmp_path):
        raise ValueError("no")
    assert (tmp_path / TABLE).read_text() == "0 passes, 0 changed something, 0.00 s\n"


def test_equal_modules_differ_in_nothing_that_is_counted() -> None:
    assert describe_change(tvm.IRModule({}), tvm.IRModule({})) == "names, types or attributes"


@pytest.mark.compiler
def test_a_package_is_the_same_with_its_passes_dumped(
    save_convnet: SaveModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = save_convnet(), PackageTarget("here", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 2}))
    plain = build_package(path, target)
    monkeypatch.setenv(DUMP_IR, str(tmp_path / "dumps"))
    dumped = build_package(path, target)
    assert (dumped.library, dumped.info) == (plain.library, plain.info)
    written = [each.name for each in sorted((tmp_path / "dumps" / f"{path.stem}@here").iterdir())]
    assert written[0] == "000-imported.py"
    assert any("-virtual-machine-" in name for name in written)
    assert any("-rules-applied-ScheduleByRuleOnCpu" in name for name in written)
