"""The results that a worker finds, as maps of their fields for JSON. Pixels become text."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmbuild.package.results import Box, Map, Output, Result, Results

_LEVEL = 1
"""The level of zlib: the text stays in this machine's memory."""


def list_fields(found: Results | dict[str, np.ndarray]) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each kind as maps of their fields.

    ``mask`` of a box, ``pixels`` of a map and ``values`` of an output are for `unpack_pixels`. Outputs without
    `postprocess` have no results.
    """
    if isinstance(found, dict):
        return {}
    return {kind: [_list_fields(each) for each in results] for kind, results in found.by_kind.items()}


def _list_fields(result: Result) -> dict[str, Any]:
    told = result.as_dict()
    if isinstance(result, Box) and result.mask is not None:
        told["mask"] = pack_pixels(result.mask)
    if isinstance(result, Map):
        told["pixels"] = pack_pixels(result.classes)
    if isinstance(result, Output):
        told["values"] = pack_pixels(result.values)
    return told


def pack_pixels(pixels: np.ndarray) -> dict[str, Any]:
    """Return pixels [height, width], or any array, as a JSON value. `unpack_pixels` is the inverse."""
    data = base64.b64encode(zlib.compress(pixels.tobytes(), _LEVEL)).decode()
    return {"shape": list(pixels.shape), "dtype": pixels.dtype.name, "data": data}


def unpack_pixels(packed: Mapping[str, Any]) -> np.ndarray:
    """Return the pixels that `pack_pixels` has packed."""
    data = zlib.decompress(base64.b64decode(packed["data"]))
    pixels: np.ndarray = np.frombuffer(data, packed["dtype"]).reshape(packed["shape"])
    return pixels
