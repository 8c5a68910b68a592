"""Packages of small networks for frames of 80 by 50 pixels, which an input of 96 by 64 letterboxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from device_kinds import attributes_of

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Postprocess
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session

SIZE = (64, 96)
RULES = Preprocess(resize="letterbox")
FRAMES = (Frame(50, 80, "bgr8"), Frame(50, 80, "rgb8", "bilinear"), Frame(50, 80, "nv12"))
DEVICES = ["llvm", pytest.param("vulkan", marks=pytest.mark.vulkan), pytest.param("cuda", marks=pytest.mark.cuda)]


def build(folder: Path, model: onnx.ModelProto, asked: Postprocess | None, kind: str = "llvm", **more: Any) -> Session:
    """Build a package of a network for a kind of device, by default for the first of FRAMES, and open it."""
    host = FrozenMap({"mcpu": "x86-64"}) if kind != "llvm" else FrozenMap()
    target = PackageTarget("here", kind, attributes_of(kind), host)
    given = {"preprocess": RULES, "frames": FRAMES[:1], "postprocess": () if asked is None else (asked,)}
    options = BuildOptions("net", **{**given, **more})
    write_package(folder / "net.tar", build_package(model.SerializeToString(), target, options=options))
    return Session(folder / "net.tar")


def draw_frame(frame: Frame, seed: int = 1) -> np.ndarray:
    """Return random bytes of a frame."""
    return np.random.default_rng(seed).integers(0, 256, frame.shape, np.uint8)
