from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from other_processes import is_gone_by_number

from tvmbuild.base.processes import follow_module, run_module


def test_no_file_of_the_working_folder_shadows_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "value.json").write_text("[3]")
    done = run_module("json.tool", "--compact", tmp_path / "value.json")
    assert (done.returncode, done.stdout) == (0, "[3]\n")


def test_a_module_that_fails_or_does_not_end(tmp_path: Path) -> None:
    assert run_module("json.tool", tmp_path / "absent").returncode != 0
    with pytest.raises(subprocess.TimeoutExpired):
        run_module("timeit", "-n1", "-r1", "import time; time.sleep(30)", timeout_s=0.5)


def test_the_progress_of_a_module_is_shown_while_it_runs() -> None:
    shown: list[str] = []
    script = "import tvmbuild.base.progress as p; p.report_progress('half'); print('done'); raise SystemExit('over')"
    done = follow_module("timeit", "-n1", "-r1", script, show=shown.append)
    assert shown == ["half"]
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (1, "done\n", "SystemExit: over")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_a_process_dies_with_its_parent() -> None:
    child = (
        "import time; from tvmbuild.base.processes import die_with_parent as d\n"
        "d(); print('up', flush=True); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE, text=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    end = time.monotonic() + 10
    while not is_gone_by_number(pid):
        assert time.monotonic() < end, "the child outlived its parent"
        time.sleep(0.05)
