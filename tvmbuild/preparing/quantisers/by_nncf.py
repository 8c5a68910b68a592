"""Quantising by NNCF, which corrects biases and reads and writes ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import Any

from tvmbuild.preparing.quantisers.quantiser import Work

_TELEMETRY = "openvino_telemetry"


def quantise(work: Work) -> Any:
    """Return the quantised ModelProto; what NNCF prints is its own affair."""
    # Without that module NNCF tells nobody that it was called, and asks nobody whether it may.
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    import nncf  # noqa: PLC0415 - an extra

    nncf.set_log_level(logging.ERROR)
    exact = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.DISABLE)
    with contextlib.redirect_stdout(io.StringIO()):
        return nncf.quantize(
            work.model,
            nncf.Dataset(work.samples),
            # Zero points of their own: SiLU and its like are hardly ever negative.
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(work.samples),
            ignored_scope=nncf.IgnoredScope(names=list(work.excluded), validate=False),
            # Sums do not saturate here, so that weights may have all their bits.
            advanced_parameters=exact,
        )
