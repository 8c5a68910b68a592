"""The interface of ``main``, and the frames and results, which are further functions of a package."""

from __future__ import annotations

from dataclasses import dataclass

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Postprocess
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.metadata import TensorInfo


@dataclass(frozen=True)
class EntryOptions:
    """The frames that a package takes and the results that it makes."""

    preprocess: Preprocess | None = None
    frames: tuple[Frame, ...] = ()
    postprocess: tuple[Postprocess, ...] = ()


@dataclass(frozen=True)
class Interface:
    """The inputs and outputs of ``main``, and the model's name for messages."""

    model: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
