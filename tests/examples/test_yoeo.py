"""The yoeo example: its package has both outputs, the node publishes them, and an absent export is reported at once."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np
import onnx
import pytest
from example_project import build_example, copy_example, run_in_example

import tvmbuild
from tvmbuild.config import load_project
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.results import Results

PACKAGE = "build/cells/yoeo@x86-64-v3/yoeo-x86-64-v3.tar"
ROS = Path(__file__).parents[1] / "support" / "ros"
DRIVE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, rclpy, yoeo_node
from sensor_msgs.msg import Image

rclpy.parameters["package"] = sys.argv[2]
node = yoeo_node.YoeoNode()
picture = numpy.random.default_rng(0).integers(0, 256, (480, 640, 3), numpy.uint8)
padded = numpy.zeros((480, 2048), numpy.uint8)  # rows longer than the picture, as cameras send them
padded[:, :1920] = picture.reshape(480, 1920)
sizes = {"height": 480, "width": 640, "step": 2048}
node.subscribed["image"](Image(**sizes, encoding="bgr8", data=padded.tobytes(), header="stamp"))
numpy.save("picture.npy", picture)
(detections,), (mask,) = node.published["detections"], node.published["segmentation"]
count = len(detections.data) // 6
dims = [(dim.label, dim.size, dim.stride) for dim in detections.layout.dim]
assert dims == [("box", count, 6 * count), ("value", 6, 6)]
assert (mask.height, mask.width, mask.step, mask.encoding, mask.header) == (480, 640, 640, "mono8", "stamp")
numpy.savez("published.npz", boxes=numpy.array(detections.data), mask=numpy.frombuffer(mask.data, numpy.uint8))
"""


def test_the_node_is_python(project_root: Path) -> None:
    path = project_root / "examples" / "yoeo" / "yoeo_node.py"
    compile(path.read_text(), path, "exec")


def test_an_absent_export_is_said_with_the_line_to_edit(tmp_path: Path, project_root: Path) -> None:
    folder = copy_example(project_root, tmp_path, "yoeo")
    (folder / "yoeo.onnx").unlink(missing_ok=True)
    done = run_in_example(folder, "-m", "doit", "list")
    assert done.returncode != 0
    assert "models.yaml:6:13: models.yoeo.source.path: the file yoeo.onnx does not exist" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.nightly
@pytest.mark.compiler
def test_the_node_publishes_what_the_package_computes(tmp_path: Path, project_root: Path) -> None:
    folder = copy_example(project_root, tmp_path, "yoeo")
    (folder / "yoeo.onnx").unlink(missing_ok=True)
    make = runpy.run_path(str(project_root / "benchmarks" / "networks" / "made" / "yoeo.py"))["make"]
    onnx.save(make(lead=0.0), folder / "yoeo.onnx")  # pixels of all classes
    said = build_example(folder, "compile:yoeo@x86-64-v3")
    assert "ok compile:yoeo@x86-64-v3" in said
    coverage = read_metadata(folder / PACKAGE).coverage
    assert coverage.covered == coverage.tasks > 0, "the example's records no longer fit"
    subprocess.run([sys.executable, "-c", DRIVE, ROS, PACKAGE], cwd=folder, check=True)
    with tvmbuild.load(folder / PACKAGE) as session:
        want = session.run_frame(np.load(folder / "picture.npy"), "bgr8")
    assert isinstance(want, Results)
    assert want.segmentation is not None
    published = np.load(folder / "published.npz")
    boxes = [(box.x, box.y, box.width, box.height, box.score, box.index) for box in want.boxes]
    assert {box.label for box in want.boxes} & {"ball", "goalpost", "robot"}
    np.testing.assert_allclose(published["boxes"].reshape(-1, 6), boxes, rtol=1e-6)
    assert len(np.unique(published["mask"])) > 1
    np.testing.assert_array_equal(published["mask"].reshape(480, 640), want.segmentation.classes)


def test_the_export_asks_for_the_names_that_the_node_takes(
    project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test uses stand-ins for PyTorch and YOEO, which the test environment lacks."""
    asked: dict[str, object] = {}
    network = MagicMock(name="network")
    network.cpu.return_value.eval.return_value = network
    torch, models = MagicMock(name="torch"), ModuleType("yoeo.models")
    torch.onnx.export.side_effect = lambda *_, **options: asked.update(options) or MagicMock(model_proto="proto")
    models.load_model = lambda *paths: asked.update(paths=paths) or network  # type: ignore[attr-defined]
    for name, module in (("torch", torch), ("yoeo", ModuleType("yoeo")), ("yoeo.models", models)):
        monkeypatch.setitem(sys.modules, name, module)
    made = runpy.run_path(str(project_root / "examples/yoeo/export_yoeo.py"))["make"](
        tmp_path / "yoeo.cfg", tmp_path / "yoeo.pth"
    )
    assert made == "proto"
    assert asked["paths"] == (f"{tmp_path}/yoeo.cfg", f"{tmp_path}/yoeo.pth")
    assert (asked["output_names"], asked["dynamo"]) == (["Detections", "Segmentations"], True)


def test_the_lines_that_models_yaml_shows_are_a_source(project_root: Path, tmp_path: Path) -> None:
    folder = copy_example(project_root, tmp_path, "yoeo")
    text = (folder / "models.yaml").read_text()
    lines = [line.replace("#   ", "", 1) for line in text.splitlines() if "      path: yoeo.onnx" not in line]
    (folder / "models.yaml").write_text("\n".join(lines) + "\n")
    for name in ("yoeo.cfg", "yoeo.pth"):
        (folder / name).touch()
    project = load_project(folder)
    assert project.models[0].source.kind == "export"
    families = {target.name: target.precision for target in project.targets if target.kind == "vulkan"}
    assert families == {"nuc-vulkan": "fp32", "nuc-vulkan-fp16": "fp16"}
