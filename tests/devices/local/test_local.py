from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from onnx import TensorProto, helper
from other_processes import find_below, is_gone_by_number

from tvmbuild.devices import conversation, model_worker
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.errors import TvmbuildError


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """y = x + x under ONNX Runtime."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["file"])],
        "net",
        [value("x", TensorProto.FLOAT, (3,))],
        [value("file", TensorProto.FLOAT, (3,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    inputs: dict[str, Any] = {"input:x": np.array([1, 2, 3], dtype=np.float32)}
    np.savez(tmp_path / "r.npz", **inputs)
    return Load("onnxruntime", tmp_path / "m.onnx", tmp_path / "r.npz", 1)


def test_a_worker_runs_and_times(load: Load) -> None:
    with start_worker(load) as worker:
        outputs = worker.outputs()
        assert {name: value.tolist() for name, value in outputs.items()} == {"file": [2, 4, 6]}
        assert worker.warm_up(0.0) > 0
        samples = worker.time(number=2, repeat=7)
        assert len(samples) == 7
        assert all(0 < sample < 1000 for sample in samples)
        memory = worker.peak_memory_mb()
        assert memory is None or 10 < memory < 2000


def test_a_worker_measures_a_call_and_keeps_the_peak_before_it(load: Load) -> None:
    with start_worker(load) as worker:
        before, taken, after = worker.peak_memory_mb(), worker.call_memory(), worker.peak_memory_mb()
        assert taken is None or taken < 50e6
        assert before is None or after is None or after >= before


def test_a_paused_worker_takes_no_cpu_and_goes_on(load: Load) -> None:
    with start_worker(load) as worker:
        process = psutil.Process(worker.pid)
        worker.pause()
        assert process.status() == psutil.STATUS_STOPPED
        worker.resume()
        assert worker.time(1, 1)
    assert not psutil.pid_exists(worker.pid)


def test_a_worker_that_cannot_load_says_why(load: Load, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with (
        pytest.raises(TvmbuildError, match=r"the process that ran m\.onnx failed with exit code 1: .*"),
        start_worker(load),
    ):
        pytest.fail("it loaded")


def test_a_worker_that_is_killed_says_so(load: Load) -> None:
    with start_worker(load) as worker:
        os.kill(worker.pid, signal.SIGILL)
        with pytest.raises(TvmbuildError, match=r"died of signal 4 \(SIGILL\)") as caught:
            worker.time(1, 1)
        assert "instructions that this CPU does not have" in (caught.value.hint or "")


def test_a_stopped_worker_dies_with_a_killed_parent(load: Load) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom tvmbuild.devices.model_worker import Load, start_worker\n"
        "with start_worker(Load('onnxruntime', Path(sys.argv[1]), Path(sys.argv[2]), 1)) as worker:\n"
        "    worker.pause()\n    print(worker.pid, flush=True)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(load.model), str(load.reference)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
        parent.kill()
    end = time.monotonic() + 10
    while not is_gone_by_number(pid):
        assert time.monotonic() < end, "the worker outlived its parent"
        time.sleep(0.05)


def test_a_worker_that_hangs_is_killed(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_worker(load) as worker:
        monkeypatch.setattr(conversation, "CALL_LIMIT_S", 0.2)
        worker.pause()
        with pytest.raises(TvmbuildError, match=r"that ran m\.onnx gave no answer for 0\.6 s and was killed") as caught:
            worker.time(number=3, repeat=1)
        assert "tune the cell" in (caught.value.hint or "")
    assert not psutil.pid_exists(worker.pid)


def test_a_worker_that_hangs_while_loading_is_killed(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_worker, "LOAD_LIMIT_S", 0.01)
    with pytest.raises(TvmbuildError, match=r"gave no answer for 0\.01 s"), start_worker(load):
        pytest.fail("it loaded")
    assert not find_below(psutil.Process(), lambda each: "tvmbuild.devices.serve_model" in each.cmdline())


def test_a_worker_at_work_is_given_time(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_worker(load) as worker:
        monkeypatch.setattr(conversation, "CALL_LIMIT_S", 1.0)
        start = time.monotonic()
        assert worker.warm_up(2.5) > 0
        assert time.monotonic() - start > 2
        assert len(worker.time(number=1, repeat=3)) == 3


def test_no_file_of_the_project_shadows_a_module(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    relative = Load(load.runtime, Path("m.onnx"), Path("r.npz"), 1)
    with start_worker(relative) as worker:
        assert worker.warm_up(0.0) > 0


def test_only_packages_are_profiled(load: Load) -> None:
    with start_worker(load) as worker, pytest.raises(TvmbuildError, match="only packages can be profiled by operator"):
        worker.profile()
