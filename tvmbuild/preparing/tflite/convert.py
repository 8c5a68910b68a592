"""The conversion of a .tflite file to ONNX, proved by LiteRT: both must give the same outputs for drawn inputs."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tvmbuild.base.source_specs import TFLITE
from tvmbuild.base.specs import Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.reference import make_inputs, run_onnx
from tvmbuild.preparing.tflite.graph import IR_VERSION, OPSET, OnnxGraph
from tvmbuild.preparing.tflite.operators import OPERATORS
from tvmbuild.preparing.tflite.reader import Tensor, TfliteGraph, import_extra, read_tflite

SETS = 2
"""The number of input sets on which both must agree."""
GATES = {False: Tolerance(rtol=1e-3, atol=1e-4, of_largest=1e-4), True: Tolerance(of_largest=5 / 255)}
"""The tolerance, by whether the model has integers: LiteRT rounds between its operators, ONNX as the file says.

Integers of a quantised network may always differ by one step: where all are small, `of_largest` is less than that."""
SPREADS = 2
"""The outputs may differ by so many times the change that the last bit of the inputs makes: so sensitive is the network
to rounding."""
MOST = 0.02
"""The largest share of an output's largest element that is allowed so: a conversion must be proved."""
HINT = "convert the network to ONNX where it was made, or replace what cannot be converted"


def convert_tflite(path: Path, said: str) -> onnx.ModelProto:
    """Return the network in ONNX; TvmbuildError names all unknown operators, or outputs that differ from LiteRT's."""
    schema = import_extra("tflite", lambda: TFLITE.explain("tflite"))
    try:
        graph = read_tflite(path, schema)
        proto = write_onnx(graph)
    except TvmbuildError as error:
        raise TvmbuildError(f"{said}: {error.message}", error.hint or HINT) from error
    _prove(path, proto, graph, said)
    return proto


def write_onnx(graph: TfliteGraph) -> onnx.ModelProto:
    """Return the graph in ONNX's operators."""
    lacking = Counter(each.kind for each in graph.operators if each.kind not in OPERATORS)
    if lacking:
        shown = ", ".join(kind if count == 1 else f"{kind} ({count} times)" for kind, count in sorted(lacking.items()))
        raise TvmbuildError(f"there is no code for {shown}")
    made = OnnxGraph()
    for operator in graph.operators:
        OPERATORS[operator.kind](made, operator)
    inputs, outputs = ([_describe(tensor) for tensor in side] for side in (graph.inputs, graph.outputs))
    body = helper.make_graph(made.nodes, "tflite", inputs, outputs, list(made.constants.values()))
    proto = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(proto)
    return proto


def _describe(tensor: Tensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, helper.np_dtype_to_tensor_dtype(tensor.dtype), tensor.shape)


def _prove(path: Path, proto: onnx.ModelProto, graph: TfliteGraph, said: str) -> None:
    tensors = [TensorInfo(each.name, each.shape, str(each.dtype)) for each in graph.inputs]
    is_integer = any(tensor.is_quantised for operator in graph.operators for tensor in operator.outputs)
    content = proto.SerializeToString()
    for seed in range(SETS):
        feeds = make_inputs(tensors, (), seed)
        try:
            want = run_litert(path, graph, feeds)
        except (RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[-1]
            raise TvmbuildError(
                f"{said}: LiteRT cannot run it with the shapes that it states: {reason}", HINT
            ) from error
        got = run_onnx(content, feeds, said)
        spread = find_spread(got, run_onnx(content, {name: move_bits(value) for name, value in feeds.items()}, said))
        gate = replace(GATES[is_integer], of_largest=max(GATES[is_integer].of_largest, min(SPREADS * spread, MOST)))
        for output in graph.outputs:
            name, step = output.name, 1.0 if output.is_quantised else gate.atol
            problem = compare({name: got[name]}, {name: want[name]}, replace(gate, atol=step)).problem
            if problem is not None:
                raise TvmbuildError(f"{said}: converted to ONNX it computes other numbers than LiteRT: {problem}", HINT)


def move_bits(value: np.ndarray) -> np.ndarray:
    """Return floats that are a bit larger or smaller, drawn for each, and other values as they are."""
    if value.dtype.kind != "f":
        return value
    ends = np.random.default_rng(0).choice(np.array([-np.inf, np.inf], value.dtype), value.shape)
    moved: np.ndarray = np.nextafter(value, ends)
    return moved


def find_spread(outputs: Mapping[str, np.ndarray], moved: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference of outputs as a share of their output's largest element."""
    shares = [0.0]
    for name, value in outputs.items():
        exact = np.asarray(value, np.float64)
        largest = float(np.max(np.abs(exact), initial=0.0))
        if largest > 0:
            shares.append(float(np.max(np.abs(exact - moved[name]))) / largest)
    return max(shares)


def run_litert(path: Path, graph: TfliteGraph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return LiteRT's outputs, computed by its plain kernels, without a delegate."""
    litert = import_extra("ai_edge_litert.interpreter", lambda: TFLITE.explain("ai-edge-litert"))
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with _quiet():
        interpreter = litert.Interpreter(str(path), experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
        for detail, tensor in zip(interpreter.get_input_details(), graph.inputs, strict=True):
            interpreter.set_tensor(detail["index"], feeds[tensor.name])
        interpreter.invoke()
        details: list[dict[str, Any]] = interpreter.get_output_details()
        return {
            tensor.name: interpreter.get_tensor(detail["index"])
            for detail, tensor in zip(details, graph.outputs, strict=True)
        }


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discard the messages of LiteRT's C++ on stderr."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
