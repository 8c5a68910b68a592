"""Write the nine convolutional networks of onnx's own test data, with random weights in place of constants.

python benchmarks/topologies.py FOLDER

onnx ships them without their weights. The random weights are those of He et al.: normal, scaled by the
number of inputs. The last layer's weights are scaled once more, so that its outputs have a deviation of one and a
softmax does not saturate.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

SEED = 20261122
IR_VERSION = 8
"""The IR version, because the first versions want weights among the inputs."""
_PRODUCTS = frozenset({"Conv", "Gemm"})
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def main() -> None:
    """Write all networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(LIGHT.glob("light_*.onnx")):
        onnx.save(scale_outputs(give_weights(onnx.load(path))), folder / path.name.removeprefix("light_"))
        print(folder / path.name.removeprefix("light_"))


def give_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with each ConstantOfShape, which stands for a weight, replaced by random numbers; in place."""
    random = np.random.RandomState(SEED)
    model.ir_version = IR_VERSION
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    users = {name: (node, index) for node in graph.node for index, name in enumerate(node.input)}
    left = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            left.append(node)
            continue
        user, index = _find_user(node.output[0], users)
        values = _draw(random, user, index, tuple(int(n) for n in shapes[node.input[0]]))
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(left)
    weights = {tensor.name for tensor in graph.initializer}
    used = {name for node in left for name in node.input}
    inputs = [value for value in graph.input if value.name not in weights]
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    for field, kept in ((graph.input, inputs), (graph.initializer, initializers)):
        del field[:]
        field.extend(kept)
    return model


def scale_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Divide the last product's weights and biases by the deviation of its outputs; in place."""
    product = [node for node in model.graph.node if node.op_type in _PRODUCTS][-1]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.append(onnx.helper.make_empty_tensor_value_info(product.output[0]))
    session = onnxruntime.InferenceSession(probe.SerializeToString())
    (data,) = session.get_inputs()
    feed = np.random.RandomState(SEED).uniform(-1, 1, data.shape).astype(np.float32)
    deviation = np.std(session.run([product.output[0]], {data.name: feed})[0])
    for tensor in model.graph.initializer:
        if tensor.name in product.input[1:]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) / deviation, tensor.name))
    return model


def _find_user(name: str, users: dict[str, tuple[onnx.NodeProto, int]]) -> tuple[onnx.NodeProto, int]:
    user, index = users[name]
    while user.op_type == "Unsqueeze":  # densenet's and inception's scales
        user, index = users[user.output[0]]
    return user, index


def _draw(random: np.random.RandomState, user: onnx.NodeProto, index: int, shape: tuple[int, ...]) -> np.ndarray:
    if user.op_type in _PRODUCTS and index == 1:
        inputs = int(np.prod(shape[1:])) if user.op_type == "Conv" else shape[1]
        return np.asarray(random.standard_normal(shape) * np.sqrt(2 / inputs))
    positive = (user.op_type == "BatchNormalization" and index in {1, 4}) or user.op_type == "Mul"
    return random.uniform(0.8, 1.2, shape) if positive else random.uniform(-0.1, 0.1, shape)


if __name__ == "__main__":
    main()
