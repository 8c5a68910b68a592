"""A network in PyTorch on the GPU: eager, as one CUDA graph, and compiled.

The module is the one that an export function of models.yaml exported, where its `__wrapped__` returns it
(networks/modern/networks.py). onnx2torch makes the modules of other networks. Their forward passes read shapes and
slices from tensors on the GPU, which a CUDA graph cannot hold, so the frozen trace of one pass is captured: the same
operators with these constants written into it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
import yaml
from onnx import helper, shape_inference
from torch import fx, nn
from torch_fused import fuse

Contender = tuple[Callable[[], object], Callable[[], dict[str, np.ndarray]]]
"""A call that is waited for, and a function that returns its outputs by name."""

DEVICE = "cuda"


class Network(nn.Module):  # type: ignore[misc]
    """A module that takes and returns float32, as a package does, whatever its inner precision."""

    def __init__(self, network: nn.Module, half: bool) -> None:
        super().__init__()
        self.network = network.half() if half else network
        self.half_inside = half

    def forward(self, *given: Any) -> Any:
        """Return the outputs."""
        half = self.half_inside
        result = self.network(*[each.half() if half and each.is_floating_point() else each for each in given])
        results = result if isinstance(result, list | tuple) else [result]
        return [each.float() if half and each.is_floating_point() else each for each in results]


class Loaded(NamedTuple):
    """A network and its inputs, both on the GPU, and the names of its outputs."""

    network: Any
    tensors: list[Any]
    outputs: list[str]

    def compute(self) -> Any:
        """Compute the outputs."""
        return self.network(*self.tensors)


def load(path: Path, inputs: dict[str, np.ndarray], half: bool, fused: bool = False) -> Loaded:
    """Return the network; if ``fused``, of PyTorch's own functions of several nodes.

    ``path`` is PROJECT/build/models/NAME/model.onnx.
    """
    torch.backends.cudnn.benchmark = True
    exported = find_exported(path)
    if exported is not None:
        if fused:
            raise RuntimeError("the exported module is as its author wrote it")
        module, names, outputs = exported
        tensors = [torch.from_numpy(inputs[name]).to(DEVICE) for name in names]
        return Loaded(Network(module.to(DEVICE), half).eval(), tensors, outputs)
    return _convert(path, inputs, half, fused)


def find_exported(path: Path) -> tuple[nn.Module, list[str], list[str]] | None:
    """Return the module that models.yaml's export function exported, its inputs and its outputs.

    Return None if the model has no export function, or one that does not return its module.
    """
    project = path.parents[3]
    source = yaml.safe_load((project / "models.yaml").read_text())["models"][path.parent.name]["source"]
    file, _, name = source.get("export", "").partition(":")
    if not name:
        return None
    sys.path[:0] = [str((project / file).parent), str(project)]  # the file imports its neighbours
    spec = importlib.util.spec_from_file_location(Path(file).stem, project / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = getattr(getattr(module, name), "__wrapped__", None)
    if build is None:
        return None
    network = build(**source.get("arguments", {}))
    return network.module, list(network.inputs), list(network.outputs)


def _convert(path: Path, inputs: dict[str, np.ndarray], half: bool, fused: bool) -> Loaded:
    """Return the network as onnx2torch makes it."""
    from onnx2torch import convert  # noqa: PLC0415

    model = with_explicit_padding(onnx.load(path))
    _fill_registry(model)
    if fused:
        model, found = fuse(shape_inference.infer_shapes(model))
        if not found:
            raise RuntimeError("nothing in it that PyTorch fuses")
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    tensors = [torch.from_numpy(inputs[name]).to(DEVICE) for name in names]
    network = Network(convert(model).eval().to(DEVICE), half).eval()
    return Loaded(network, tensors, [value.name for value in model.graph.output])


def trace(loaded: Loaded) -> Loaded:
    """Return onnx2torch's network as a frozen graph without Python, and every other network as it is."""
    if not isinstance(loaded.network.network, fx.GraphModule):
        return loaded
    torch._C._jit_set_texpr_fuser_enabled(False)  # noqa: SLF001 - torch.compile is the contender that fuses
    with torch.inference_mode():
        traced = torch.jit.trace(loaded.network, loaded.tensors, check_trace=False)
        return loaded._replace(network=torch.jit.freeze(traced.eval()))


def make_eager(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return PyTorch's eager mode."""
    loaded = load(path, inputs, half)
    return waited(loaded.compute, loaded.outputs)


def make_graph(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return PyTorch's kernels captured once and replayed."""
    return _capture(trace(load(path, inputs, half)))


def make_graph_fused(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return the same with attention, GELU and linear layers as PyTorch's own functions."""
    return _capture(trace(load(path, inputs, half, fused=True)))


def make_graph_nhwc(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return the same with channels last, the layout of half precision's tensor cores."""
    network, tensors, outputs = load(path, inputs, half)
    last = torch.channels_last
    tensors = [each.contiguous(memory_format=last) if each.dim() == 4 else each for each in tensors]
    return _capture(trace(Loaded(network.to(memory_format=last), tensors, outputs)))


def make_graph_strict(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return `make_graph` in float32 throughout: PyTorch's convolutions are TF32 by default."""
    with _strict():
        return make_graph(path, inputs, half)


def make_graph_nhwc_strict(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return `make_graph_nhwc` in float32 throughout."""
    with _strict():
        return make_graph_nhwc(path, inputs, half)


@contextmanager
def _strict() -> Iterator[None]:
    """Choose kernels without TF32 inside the context; a captured graph keeps its kernels."""
    kept = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = kept[0]
        torch.set_float32_matmul_precision(kept[1])


def _capture(loaded: Loaded) -> Contender:
    return capture(loaded.compute, loaded.outputs)


def capture(compute: Callable[[], Any], outputs: list[str]) -> Contender:
    """Capture the work of ``compute`` on the current stream as one CUDA graph; return it with ``compute``'s outputs."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode():
        with torch.cuda.stream(stream):
            for _ in range(5):
                compute()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            result = compute()

    def run(_kept: object = compute) -> Any:  # the graph reads the memory that it holds
        graph.replay()
        return result

    return waited(run, outputs)


def make_compiled(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return torch.compile's result for low latency, including CUDA graphs."""
    return _compile(load(path, inputs, half), "reduce-overhead")


def make_autotuned(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return torch.compile's result with all of its searches, including CUDA graphs; this takes minutes."""
    return _compile(load(path, inputs, half), "max-autotune")


def _compile(loaded: Loaded, mode: str) -> Contender:
    loaded = loaded._replace(network=torch.compile(loaded.network, mode=mode))
    call, outputs = waited(loaded.compute, loaded.outputs)
    for _ in range(4):
        call()
    return call, outputs


def waited(run: Callable[[], Any], names: list[str]) -> Contender:
    """Return a call that ends when the GPU is done, and its outputs."""

    def call() -> Any:
        with torch.inference_mode():
            result = run()
        torch.cuda.synchronize()
        return result

    return call, lambda: {name: each.float().cpu().numpy() for name, each in zip(names, call(), strict=True)}


def with_explicit_padding(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with ``pads`` in place of ``auto_pad``, which onnx2torch refuses."""
    known = shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [each.dim_value for each in value.type.tensor_type.shape.dim]
        for value in (*known.value_info, *known.input, *known.output)
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    for node in (each for each in model.graph.node if each.op_type in {"Conv", "MaxPool", "AveragePool"}):
        given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        mode = given.get("auto_pad", b"NOTSET")
        if mode == b"NOTSET":
            continue
        sizes = shapes[node.input[0]][2:]
        kernel = given.get("kernel_shape") or shapes[node.input[1]][2:]
        strides = given.get("strides") or [1] * len(sizes)
        dilations = given.get("dilations") or [1] * len(sizes)
        totals = [
            max(0, (-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size)
            for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True)
        ]
        less, more = [each // 2 for each in totals], [each - each // 2 for each in totals]
        pads = {b"SAME_UPPER": less + more, b"SAME_LOWER": more + less, b"VALID": [0] * 2 * len(sizes)}[mode]
        kept = [each for each in node.attribute if each.name not in {"auto_pad", "pads"}]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("pads", pads)])
    return model


def _fill_registry(model: onnx.ModelProto) -> None:
    """Teach onnx2torch Pad by constants, and the missing versions of other operators as the nearest it has."""
    from onnx2torch.node_converters.registry import _CONVERTER_REGISTRY as KNOWN  # noqa: PLC0415
    from onnx2torch.node_converters.registry import OperationDescription  # noqa: PLC0415

    opset = next(each.version for each in model.opset_import if each.domain in {"", "ai.onnx"})
    for kind in {node.op_type for node in model.graph.node}:
        version = onnx.defs.get_schema(kind, opset).since_version
        wanted = OperationDescription(domain="", operation_type=kind, version=version)
        near = [each for each in KNOWN if each.operation_type == kind and each.domain == ""]
        if kind == "Pad" and version >= 11:  # the pads are an input
            KNOWN[wanted] = _convert_pad
        elif wanted not in KNOWN and near:
            KNOWN[wanted] = KNOWN[min(near, key=lambda each: abs(each.version - version))]


class Pad(nn.Module):  # type: ignore[misc]
    """A module that pads by constants."""

    def __init__(self, pads: list[int], mode: str) -> None:
        super().__init__()
        self.pads, self.mode = pads, mode

    def forward(self, value: Any) -> Any:
        """Return the padded tensor."""
        return nn.functional.pad(value, self.pads, mode=self.mode)


def _convert_pad(node: Any, graph: Any) -> Any:
    from onnx2torch.utils.common import OnnxMapping, OperationConverterResult  # noqa: PLC0415

    if any(node.input_values[2:]):
        raise NotImplementedError("Pad with a value or with axes")
    pads = graph.initializers[node.input_values[1]].to_numpy().tolist()
    pairs = list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True))
    while pairs and pairs[0] == (0, 0):
        del pairs[0]
    flat = [each for pair in reversed(pairs) for each in pair]
    mapping = OnnxMapping(inputs=(node.input_values[0],), outputs=tuple(node.output_values))
    mode = node.attributes.get("mode", "constant")
    return OperationConverterResult(Pad(flat, {"edge": "replicate"}.get(mode, mode)), mapping)
