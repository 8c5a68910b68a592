"""The table of libraries that `method:` of `quantize:` names, one row each."""

from __future__ import annotations

from tvmbuild.preparing.quantisers import by_nncf, by_onnxruntime
from tvmbuild.preparing.quantisers.quantiser import Quantiser

QUANTISERS: dict[str, Quantiser] = {
    "nncf": by_nncf.quantise,
    "onnxruntime": by_onnxruntime.quantise,
}
