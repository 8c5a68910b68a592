"""The pytorch example: its package gives PyTorch's outputs; another argument exports again."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_project import build_example, copy_example, run_in_example

import tvmbuild

EAGER = """
import numpy, sys, torch, network
with torch.no_grad():
    image = torch.from_numpy(numpy.load("image.npy"))
    numpy.save("scores.npy", network.build(width=16, classes=10, seed=0)(image).numpy())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    return copy_example(project_root, tmp_path_factory.mktemp("pytorch"), "pytorch")


@pytest.mark.compiler
@pytest.mark.torch
def test_the_package_computes_what_pytorch_does(folder: Path) -> None:
    said = build_example(folder, "compile")
    assert re.findall(r"^ok (\S+)", said, re.MULTILINE)[0] == "simplify:small_net"
    image = np.random.default_rng(0).uniform(0, 1, (1, 3, 96, 96)).astype(np.float32)
    np.save(folder / "image.npy", image)
    subprocess.run([sys.executable, "-c", EAGER], cwd=folder, check=True)
    want = np.load(folder / "scores.npy")
    with tvmbuild.load(folder / "build/cells/small_net@x86-64-v3/small_net-x86-64-v3.tar") as session:
        got = session.run({"image": image})["scores"]
    assert got.shape == (1, 10)
    assert np.ptp(want) > 0.01
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    assert not re.findall(r"^ok ", build_example(folder, "compile"), re.MULTILINE)
    models = folder / "models.yaml"
    models.write_text(models.read_text().replace("seed: 0", "seed: 1"))
    assert (
        "option.source.export.arguments.seed: 0 -> 1"
        in run_in_example(folder, "-m", "tvmbuild", "explain", "simplify:small_net").stdout
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_the_remedy_is_the_extra(folder: Path) -> None:
    done = run_in_example(folder, "-m", "tvmbuild", "simplify")
    assert done.returncode != 0
    assert re.search(r"network\.py:\d+: in <module>: ModuleNotFoundError: No module named 'torch'", done.stdout)
    assert "`pip install 'tvmbuild[torch]'`" in done.stdout
