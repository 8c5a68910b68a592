"""An ONNX file on the GPU by other runtimes: ONNX Runtime's CUDA provider, and TensorRT as one CUDA graph.

A float16 cell's contender gets the file with its weights and operators in float16, converted by ONNX Runtime's own
tool; inputs and outputs stay float32, as a package's do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

Contender = tuple[Callable[[], object], Callable[[], dict[str, np.ndarray]]]
"""A call that is waited for, and a function that returns its outputs by name."""
_CUDA = "CUDAExecutionProvider"
_GRAPH, _STRICT = {"enable_cuda_graph": "1"}, {"use_tf32": "0"}


def read_model(path: Path, half: bool) -> onnx.ModelProto:
    """Return the model; if ``half``, in float16 except for inputs and outputs."""
    model = onnx.load(path)
    if not half:
        return model
    from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415 - torch, where it is there

    weights = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]  # older files list weights there, too, and inputs keep their type
    model.graph.input.extend(fed)
    model.ir_version = max(model.ir_version, 4)
    return convert_float_to_float16(model, keep_io_types=True)


def describe_outputs(model: onnx.ModelProto) -> dict[str, tuple[list[int], np.dtype[Any]]]:
    """Return shape and type of each output; they are static."""
    types = {value.name: value.type.tensor_type for value in model.graph.output}
    return {
        name: ([dim.dim_value for dim in each.shape.dim], onnx.helper.tensor_dtype_to_np_dtype(each.elem_type))
        for name, each in types.items()
    }


def make_cuda(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return ONNX Runtime's CUDA provider with its defaults."""
    return _make_onnxruntime(read_model(path, half), inputs, {})


def make_cuda_graph(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return the provider as one CUDA graph; it raises if a node is left to the CPU."""
    return _make_onnxruntime(read_model(path, half), inputs, _GRAPH)


def make_cuda_graph_strict(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return the same without TF32."""
    return _make_onnxruntime(read_model(path, half), inputs, _GRAPH | _STRICT)


def _make_onnxruntime(model: onnx.ModelProto, inputs: dict[str, np.ndarray], options: Mapping[str, str]) -> Contender:
    import onnxruntime as ort  # noqa: PLC0415

    if _CUDA not in ort.get_available_providers():
        raise RuntimeError(
            f"this onnxruntime {ort.__version__} has no {_CUDA}; `pip install onnxruntime-gpu` brings it"
        )
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()  # CUDA's and cuDNN's, as PyTorch's wheels have them
    session = ort.InferenceSession(model.SerializeToString(), providers=[(_CUDA, dict(options))])
    if session.get_providers()[0] != _CUDA:
        raise RuntimeError(f"{_CUDA} does not load here")
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, "cuda", 0))
    outputs = {
        name: ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype, "cuda", 0)
        for name, (shape, dtype) in describe_outputs(model).items()
    }
    for name, value in outputs.items():  # a graph always writes to the place of its capture
        binding.bind_ortvalue_output(name, value)

    def call() -> object:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return None

    def read() -> dict[str, np.ndarray]:
        call()
        return {name: value.numpy() for name, value in outputs.items()}

    return call, read


def make_tensorrt(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return TensorRT's engine, replayed as one CUDA graph."""
    return _make_tensorrt(read_model(path, half), inputs, half, strict=False)


def make_tensorrt_strict(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
    """Return the same without TF32."""
    return _make_tensorrt(read_model(path, half), inputs, half, strict=True)


def _make_tensorrt(model: onnx.ModelProto, inputs: dict[str, np.ndarray], half: bool, *, strict: bool) -> Contender:
    import torch  # noqa: PLC0415
    from torch_contenders import capture  # noqa: PLC0415

    context = _build_engine(model, half, strict)
    tensors = {name: torch.from_numpy(value).cuda() for name, value in inputs.items()}
    for name, (shape, dtype) in describe_outputs(model).items():
        tensors[name] = torch.from_numpy(np.zeros(shape, dtype)).cuda()
    for name, tensor in tensors.items():
        if not context.set_tensor_address(name, tensor.data_ptr()):
            raise RuntimeError(f"TensorRT takes no memory for {name}")
    outputs = [value.name for value in model.graph.output]

    def run() -> list[Any]:
        if not context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("TensorRT does not run")
        return [tensors[name] for name in outputs]

    return capture(run, outputs)


def _build_engine(model: onnx.ModelProto, half: bool, strict: bool) -> Any:
    """Return the execution context of the engine that TensorRT builds from the file."""
    import tensorrt as trt  # noqa: PLC0415

    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)  # all are, since TensorRT 10
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model.SerializeToString()):
        raise RuntimeError(f"TensorRT cannot read the file: {parser.get_error(0)}")
    config = builder.create_builder_config()
    if half and hasattr(trt.BuilderFlag, "FP16"):  # later versions take the types of the file
        config.set_flag(trt.BuilderFlag.FP16)
    if strict:
        config.clear_flag(trt.BuilderFlag.TF32)
    built = builder.build_serialized_network(network, config)
    if built is None:
        raise RuntimeError("TensorRT builds no engine of the file")
    engine = trt.Runtime(logger).deserialize_cuda_engine(built)
    return engine.create_execution_context()
