from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_package import change_package

from tvmbuild.cli import main
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import make_inputs
from tvmbuild.package.profile import Peak

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folder")]


def test_the_profile_says_what_each_operator_does(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package), "--profile", "--profile-json", "p.json", "--repeat", "5"]) == 0
    profile = json.loads(Path("p.json").read_text())
    assert (profile["format"], profile["model"], profile["target"], profile["threads"]) == (1, "net", "here", 2)
    assert profile["latency_ms"]["repeat"] == 5
    assert profile["clock"] == "host"
    operators = {row["function"]: row for row in profile["operators"]}
    written = {info.function: info for info in read_metadata(package).operators or ()}
    assert written
    assert set(operators) == {*written, "vm.builtin"}
    for function, info in written.items():
        row = operators[function]
        assert (row["name"], row["key"], row["covered"]) == (info.name, info.key, False)
        assert row["flops"] == (info.flops or 0) * row["calls"]
        assert row["bytes"] == (info.bytes or 0) * row["calls"]
        assert row["us"] > 0
        assert row["bound"] in {"compute", "memory"}
        assert row["of_peak"] > 0
    assert sum(row["share"] for row in operators.values()) == pytest.approx(1)
    assert sum(row["us"] for row in operators.values()) == pytest.approx(profile["sum_us"])
    assert profile["peak"]["threads"] == 2
    assert operators["vm.builtin"]["of_peak"] is None
    printed = capsys.readouterr().out
    assert "latency without profiler" in printed
    assert "virtual machine" in printed
    assert max(written.values(), key=lambda info: info.flops or 0).key[:8] in printed


def test_a_peak_that_cannot_be_measured_costs_no_result(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(threads: int) -> Peak:
        raise TvmbuildError(f"measuring this machine's peak failed: no {threads} fingers")

    monkeypatch.setattr("tvmbuild.cli.run.measure.measure_peak", fail)
    assert main(["run", str(package), "--profile", "--profile-json", "p.json", "--repeat", "1", "--threads", "1"]) == 0
    captured = capsys.readouterr()
    assert "latency without profiler" in captured.out
    assert "warning: measuring this machine's peak failed: no 1 fingers" in captured.err
    profile = json.loads(Path("p.json").read_text())
    assert profile["peak"] is None
    assert profile["operators"]
    Path("folder").mkdir()
    assert main(["run", str(package), "--profile-json", "folder", "--repeat", "1", "--threads", "1"]) == 1
    assert "error: folder cannot be written: " in capsys.readouterr().err


def test_a_package_without_operators_is_profiled_with_what_is_known(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = change_package(package, tmp_path / "old.tar", operators=None)
    names = Counter(info.function for info in read_metadata(package).operators or ())
    with start_worker(Load("tvm", old, reference_file(package, tmp_path), 1)) as worker:
        rows = worker.profile(2).rows
    assert {row.function for row in rows} == {*names, "vm.builtin"}
    assert {(row.key, row.flops, row.bytes, row.covered) for row in rows} == {(None, None, None, None)}
    assert main(["run", str(old), "--profile", "--repeat", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if "virtual machine" in line)
    assert line.split()[-5:] == ["-"] * 5


def reference_file(package: Path, folder: Path) -> Path:
    made = make_inputs(read_metadata(package).inputs, "ones")
    arrays: dict[str, Any] = {f"input:{name}": value for name, value in made.items()}
    np.savez(folder / "reference.npz", **arrays)
    return folder / "reference.npz"


def test_a_profile_leaves_results_alone(package: Path, tmp_path: Path) -> None:
    with start_worker(Load("tvm", package, reference_file(package, tmp_path), 1)) as worker:
        before = worker.outputs()["Plus214_Output_0"]
        (first,) = {len(worker.profile(2).rows), len(worker.profile(2).rows)}
        assert first > 3
        assert np.array_equal(worker.outputs()["Plus214_Output_0"], before)


def test_a_package_runs_without_the_compiler(package: Path, tmp_path: Path) -> None:
    with start_worker(Load("tvm", package, reference_file(package, tmp_path), 1)) as worker:
        maps = Path(f"/proc/{worker.pid}/maps").read_text()
    assert "libtvm_runtime" in maps
    assert "libtvm_compiler" not in maps
