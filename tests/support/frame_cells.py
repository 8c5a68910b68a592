"""Cells whose packages take frames, ready for the benchmark stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from detector_nets import make_detector
from small_package import ANY_X86

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.specs import BenchmarkOptions, Tolerance
from tvmbuild.base.steps import BenchmarkStep, Step
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import write_reference
from tvmbuild.preparing.simplify import simplify

SIZE = (64, 96)
FRAMES = (Frame(50, 80, "bgr8", "bilinear"), Frame(50, 80, "nv12"))


HERE = PackageTarget("here", "llvm", ANY_X86)


def make_cell(folder: Path, model: onnx.ModelProto | None = None, target: PackageTarget = HERE, **more: Any) -> Path:
    """Write model.onnx, reference.npz and net-here.tar of a small detector, or of ``model``, to the folder."""
    onnx.save(model or make_detector([[1, 7, 200]], SIZE), str(folder / "source.onnx"))
    simplified = simplify(folder / "source.onnx", name="net")
    (folder / "model.onnx").write_bytes(simplified.model)
    write_reference(folder / "reference.npz", simplified.reference)
    default: dict[str, Any] = {
        "preprocess": Preprocess(resize="letterbox"),
        "frames": FRAMES,
        "postprocess": (Boxes("yolov8", score=0.3, overlap=0.3, most=40),),
    }
    options = BuildOptions("net", **{**default, **more})
    write_package(folder / "net-here.tar", build_package(simplified.model, target, options=options))
    return folder


def frame_step(
    folder: Path, baselines: tuple[str, ...] = ("onnxruntime",), device: DeviceSpec = LocalDevice()
) -> Step[BenchmarkStep]:
    """Return the step that benchmarks the cell in the folder."""
    names = {"package": "net-here.tar", "model": "model.onnx", "reference": "reference.npz"}
    benchmark = BenchmarkOptions(number=1, repeat=5, baselines=baselines)
    return Step(
        "benchmark",
        "net@here",
        BenchmarkStep("here", "llvm", device, 2, Tolerance(), benchmark),
        inputs=FrozenMap({role: folder / name for role, name in names.items()}),
        outputs=FrozenMap({"result": folder / "result.json"}),
        root=folder,
    )
