"""Quantisation by NNCF, which corrects biases and reads and writes ONNX."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from tvmbuild.base.progress import only_progress_printed
from tvmbuild.preparing.keep.control import RANKED
from tvmbuild.preparing.quantisers.attention import is_transformer, list_products_of_activations
from tvmbuild.preparing.quantisers.quantiser import Work

_TELEMETRY = "openvino_telemetry"
_ALPHA = 0.8
"""The share of outliers that SmoothQuant moves from activations into weights. The similarities of texts by minilm_l6
had a rank correlation with the float model's of 0.997 with 0.7, of 0.998 with 0.8, and of 0.994 with 0.95.
"""


def quantise(work: Work) -> Any:
    """Return the quantised ModelProto without NNCF's output. Raises ValueError for models that NNCF refuses."""
    nncf = _import_nncf()
    nncf.set_log_level(logging.ERROR)
    try:
        with only_progress_printed():
            options = {
                # Activations get zero points, because SiLU and similar functions are hardly ever negative.
                "preset": nncf.QuantizationPreset.MIXED,
                "subset_size": len(work.samples),
                # Residual sums, attention's products and softmax then stay in floats, and SmoothQuant moves outliers of
                # activations into weights. Without it, the similarities of texts by minilm_l6 had a rank correlation of
                # 0.915 with the float model's, with it of 0.998.
                "model_type": nncf.ModelType.TRANSFORMER if is_transformer(work.model) else None,
                "ignored_scope": nncf.IgnoredScope(
                    names=[*work.excluded, *list_products_of_activations(work.model)], validate=False
                ),
            }
            # Sums do not saturate here, so that weights may have all their bits.
            advanced = nncf.AdvancedQuantizationParameters(
                overflow_fix=nncf.OverflowFix.DISABLE,
                smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=_ALPHA),
            )
            calibration = nncf.Dataset(work.samples)
            if work.control is None:
                return nncf.quantize(work.model, calibration, advanced_parameters=advanced, **options)
            return nncf.quantize_with_accuracy_control(
                work.model,
                calibration,
                nncf.Dataset(work.control.samples),
                work.control.measure,
                # The margin of the float model is the drop that may be lost: the thresholds are then just kept.
                max_drop=work.control.judge_original(work.model).margin,
                advanced_quantization_parameters=advanced,
                advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(
                    ranking_subset_size=min(RANKED, len(work.control.samples)), num_ranking_workers=1
                ),
                **options,
            )
    except _list_errors() as error:
        raise ValueError(str(error)) from error


def _import_nncf() -> Any:
    """Import NNCF without its telemetry module, so that it reports its use to nobody."""
    missing = object()
    before = sys.modules.get(_TELEMETRY, missing)
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("nncf")
    finally:
        del sys.modules[_TELEMETRY]
        if before is not missing:
            sys.modules[_TELEMETRY] = before  # type: ignore[assignment]


def _list_errors() -> tuple[type[Exception], ...]:
    """Return NNCF's own errors, which have no common base class."""
    known = vars(importlib.import_module("nncf.errors")).values()
    return tuple(each for each in known if isinstance(each, type) and issubclass(each, Exception))
