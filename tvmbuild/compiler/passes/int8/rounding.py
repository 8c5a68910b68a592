"""Rules for the graph's dequantisations and quantisations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.ir.expressions import constant, shift, static_shape
from tvmbuild.compiler.passes.int8.ledger import Ledger, Rule
from tvmbuild.compiler.passes.int8.quant_params import (
    UNSIGNED,
    Accumulator,
    ByChannel,
    Joined,
    Quantised,
    QuantizedConstant,
    QuantParams,
    narrow,
    quantise,
    requantise,
)
from tvmbuild.compiler.remarks import is_missed, missed


def _dequantise(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    data, scales, zeros = (ledger.read_constant(each) for each in call.args)
    if scales is None or zeros is None:
        return missed("dequantize has steps that are computed, not constant")
    if scales.dtype != np.float32 or str(call.ty.dtype) != "float32":
        return missed(f"dequantize has steps of {scales.dtype}, and gives {call.ty.dtype}")
    if data is not None and data.dtype.kind in "iu":
        axis = int(call.attrs.axis) % max(data.ndim, 1)
        of_data = QuantizedConstant(data, scales, zeros.astype(np.int64), axis)
        return ledger.track(constant(of_data.numbers), of_data)
    origin = ledger.find_origin(call.args[0])
    if origin in ledger.by_channel:
        rounded, by_channel = ledger.by_channel[origin]
        return ledger.restore(by_channel) if _has_steps_of(ledger, call, rounded) else None
    return _dequantise_bytes(ledger, call, scales, zeros)


def _dequantise_bytes(
    ledger: Ledger, call: relax.Call, scales: np.ndarray[Any, Any], zeros: np.ndarray[Any, Any]
) -> relax.Expr | None:
    origin = ledger.find_origin(call.args[0])
    twin = ledger.unsigned.get(origin) if isinstance(origin, relax.Var) else None
    if twin is None and str(call.args[0].ty.dtype) == "int8":
        twin = shift(ledger.emit, call.args[0], UNSIGNED, "uint8")  # an input, or moved integers
    if scales.size > 1:
        return missed("dequantize has steps for each channel of a tensor that was rounded otherwise")
    if twin is None and str(call.args[0].ty.dtype) != "uint8":
        return missed(f"dequantize is of {call.args[0].ty.dtype}, not of bytes")
    zero = int(zeros.reshape(())) + (0 if twin is None else UNSIGNED)
    source = Quantised(call.args[0] if twin is None else twin, np.float32(scales.reshape(())), zero)
    return ledger.restore(source)


def _quantise(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    scales, zeros = (ledger.read_constant(each) for each in call.args[1:])
    dtype = str(call.ty.dtype)
    if is_missed(_list_obstacles(call, scales, zeros)) or scales is None or zeros is None:
        return None
    if scales.size > 1:
        return _quantise_channels(ledger, call, scales, zeros)
    scale, zero = np.float32(scales.reshape(())), int(zeros.reshape(())) + (UNSIGNED if dtype == "int8" else 0)
    made = ledger.emit(_to_integers(ledger, call.args[0], QuantParams(scale, zero)))
    if dtype == "uint8":
        return made
    signed = shift(ledger.emit, made, -UNSIGNED, "int8")
    ledger.unsigned[signed] = made
    ledger.signed[made] = signed
    return signed


def _list_obstacles(
    call: relax.Call, scales: np.ndarray[Any, Any] | None, zeros: np.ndarray[Any, Any] | None
) -> Iterator[str]:
    if scales is None or zeros is None:
        yield "quantize has steps that are computed, not constant"
    if str(call.ty.dtype) not in {"uint8", "int8"}:
        yield f"quantize makes {call.ty.dtype}, not bytes"
    if {str(call.args[0].ty.dtype), str(call.args[1].ty.dtype)} != {"float32"}:
        yield f"quantize rounds {call.args[0].ty.dtype} in steps of {call.args[1].ty.dtype}"


def _quantise_channels(
    ledger: Ledger, call: relax.Call, scales: np.ndarray[Any, Any], zeros: np.ndarray[Any, Any]
) -> relax.Expr | None:
    """Quantise with a scale for each channel. If the zero points differ, keep the integers minus their zero points.

    The integers that the graph asks for are computed from these, and only if they are needed. After an activation
    without negative results, the integers minus their zero points fit in bytes.
    """
    shape, dtype = static_shape(call), str(call.ty.dtype)
    if shape is None or len(shape) != 4 or int(call.attrs.axis) % 4 != 1:
        return missed(f"quantize has steps along axis {call.attrs.axis} of {call.ty.ndim}, not along channels of NCHW")
    of_channels = np.broadcast_to(zeros, scales.shape).astype(np.int64).reshape(1, -1, 1, 1)
    scale, most = scales.reshape(1, -1, 1, 1), np.iinfo(dtype)
    if dtype == "uint8" and np.all(zeros == zeros.flat[0]):
        made = ledger.emit(_to_integers(ledger, call.args[0], QuantParams(scale, int(zeros.flat[0]))))
        ledger.by_channel[made] = call, ByChannel(made, scale, int(zeros.flat[0]))
        return made
    steps = QuantParams(scale, 0, most.min - of_channels, most.max - of_channels, "int16")
    found = ledger.find(call.args[0])
    bounded = narrow(found, steps) if isinstance(found, Accumulator) else steps
    if np.min(bounded.low) >= 0:
        steps = replace(steps, dtype="uint8")
    centred = ledger.emit(_to_integers(ledger, call.args[0], steps))
    wide = ledger.emit(relax.op.astype(centred, "int16"))
    shifted = ledger.emit(relax.op.add(wide, constant(of_channels.astype(np.int16))))
    made = ledger.emit(relax.op.astype(shifted, dtype))
    ledger.by_channel[made] = call, ByChannel(centred, scale)
    return made


def _to_integers(ledger: Ledger, data: relax.Expr, steps: QuantParams) -> relax.Expr:
    found = ledger.find(data)
    if isinstance(found, Accumulator):
        return requantise(ledger.emit, found, steps)
    if isinstance(found, Quantised) and found.is_of(steps):
        return found.value
    if isinstance(found, Joined) and np.ndim(steps.scale) == 0:  # each part is rounded as it would be in the whole
        parts = [ledger.emit(_to_integers(ledger, part, steps)) for part in found.parts]
        return relax.op.concat(parts, found.axis)
    return quantise(ledger.emit, data, steps)


def _has_steps_of(ledger: Ledger, call: relax.Call, other: relax.Call) -> bool:
    """Return whether both calls have equal scales and zero points along the same axis."""
    if int(call.attrs.axis) % 4 != int(other.attrs.axis) % 4:
        return False
    pairs = (
        (ledger.read_constant(one), ledger.read_constant(two))
        for one, two in zip(call.args[1:], other.args[1:], strict=True)
    )
    return all(one is not None and two is not None and np.array_equal(one, two) for one, two in pairs)


def sign(ledger: Ledger, data: Quantised) -> Quantised:
    """Return the same numbers with int8 values; each tensor is converted only once."""
    origin = ledger.find_origin(data.value)
    if origin not in ledger.signed:
        ledger.signed[origin] = shift(ledger.emit, data.value, -UNSIGNED, "int8")
    return replace(data, value=ledger.signed[origin], zero=data.zero - UNSIGNED)


RULES: Mapping[str, Rule] = {"relax.dequantize": _dequantise, "relax.quantize": _quantise}
