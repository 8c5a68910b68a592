"""A package with a range on GPUs, whose parts are cut in the host's memory: lavapipe, and the shim of a card."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from children import run_child
from cpp_programs import install_programs, run_as_python_does, run_program, use_pythons_vulkan
from cuda_shim import shim_environment
from ranged_nets import build_ranged_package, draw, make_stateful_net
from vulkan_project import TARGETS

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler
BATCHES = [1, 2, 3, 8, 11, 23]
CUDA_TARGETS = """\
targets:
  h100:
    kind: cuda
    arch: sm_90
    max_threads_per_block: 1024
    max_shared_memory_per_block: 49152
    thread_warp_size: 32
    host: {mcpu: x86-64, mtriple: x86_64-linux-gnu, num-cores: 1}
    device: none
"""


@pytest.fixture(scope="module")
def vulkan_package() -> Path:
    return build_ranged_package("soft", TARGETS)


@pytest.mark.vulkan
def test_parts_on_a_vulkan_device_give_the_originals_results(vulkan_package: Path) -> None:
    net = make_stateful_net().SerializeToString()
    original = onnxruntime.InferenceSession(net, providers=["CPUExecutionProvider"])
    with Session(vulkan_package) as session:
        for batch in BATCHES:
            inputs = draw(batch, batch)
            got = session.run(inputs)
            session.bind(inputs)()
            for name, want in zip(("y", "next"), original.run(["y", "next"], inputs), strict=True):
                assert got[name].shape == want.shape
                np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)


@pytest.mark.vulkan
def test_parts_on_a_device_are_refused_in_a_sentence(vulkan_package: Path) -> None:
    with Session(vulkan_package) as session:
        inputs = {name: session.to_device(value) for name, value in draw(8).items()}
        there = session.run_on_device(inputs)
        np.testing.assert_array_equal(session.to_host(there["y"]), session.run(draw(8))["y"])
        with pytest.raises(TvmbuildError, match="takes these inputs in parts, whose outputs are joined in the host's"):
            session.run_on_device(draw(11))
        inputs = {name: session.to_device(value) for name, value in draw(11).items()}
        with pytest.raises(TvmbuildError, match=r"the input x on vulkan:\d would have to be padded or cut") as refused:
            session.run(inputs)
        assert refused.value.hint is not None
        assert "its sizes are B=1, B=3, B=8" in refused.value.hint


@pytest.mark.vulkan
@pytest.mark.toolchain
def test_cpp_gives_pythons_results_in_parts_on_a_vulkan_device(
    vulkan_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_pythons_vulkan(monkeypatch)
    run_as_python_does(vulkan_package, tmp_path, [draw(batch, batch) for batch in BATCHES])
    done = run_program(install_programs() / "bin/bench_model", vulkan_package, "--size", "B=11", "--repeat", 2)
    assert done.returncode == 0, done.stderr


CUDA_CHILD = """
import json
import numpy as np
from ranged_nets import draw
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
session = Session(PACKAGE)
shapes = []
for batch in (8, 11, 2, 8):
    outputs = session.run(draw(batch))
    shapes.append({name: value.shape for name, value in outputs.items()})
try:
    session.run_on_device(draw(11))
except TvmbuildError as error:
    told = error.message
session.close()
print(json.dumps({"shapes": shapes, "told": told}))
"""


def test_parts_on_a_card_are_calls_of_their_functions(tmp_path: Path) -> None:
    package, log = build_ranged_package("h100", CUDA_TARGETS), tmp_path / "log"
    told = json.loads(run_child(CUDA_CHILD.replace("PACKAGE)", f"{str(package)!r})"), shim_environment(log=str(log))))
    assert told["shapes"] == [{"y": [b, 4], "next": [2, b, 3]} for b in (8, 11, 2, 8)]
    assert "takes these inputs in parts, whose outputs are joined in the host's memory" in told["told"]
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("mistake")]
    assert any("launch" in line for line in lines)
