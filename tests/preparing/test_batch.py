"""A batch of a file whose batch is 1: the constants that exporters write for it, and impossible batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from needs import SHARED
from network_files import find_network
from one_sample_nets import CONV, HABITS, PICTURE, REFUSED, Net, W, weights
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import node

from tvmbuild.base.specs import InputSpec, SimplifyOptions
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.simplify import Simplified, simplify

SIZE = 3


def save(net: Net, folder: Path) -> Path:
    graph = helper.make_graph(
        net.nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, *net.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in net.constants.items()],
    )
    if net.ir < 4:
        graph.input.extend(
            helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in graph.initializer
        )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=net.ir)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def run(model: bytes, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def check(path: Path, made: Simplified, axes: dict[str, int]) -> None:
    """Compare the model of a batch with the file itself on each sample; ``axes`` are the inputs' batch axes."""
    feed = {t.name: np.random.RandomState(7).uniform(-1, 1, t.shape).astype(t.dtype) for t in made.inputs}
    many = run(made.model, feed)
    for index in range(SIZE):
        one = run(path.read_bytes(), {n: v.take([index], axes[n]) for n, v in feed.items()})
        for name, value in one.items():
            axis = next(i for i, (a, b) in enumerate(zip(many[name].shape, value.shape, strict=True)) if a != b)
            np.testing.assert_allclose(many[name].take([index], axis), value, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("habit", HABITS)
def test_a_batch_has_the_numbers_of_each_sample(habit: str, tmp_path: Path) -> None:
    net = HABITS[habit]
    path = save(net, tmp_path)
    made = simplify(path, [InputSpec("x", (SIZE, *net.shape))])
    assert [each.shape for each in made.inputs] == [(SIZE, *net.shape)]
    assert made.reference.outputs["y"].shape[0] == SIZE
    assert made.notes == ()
    check(path, made, {"x": 0})
    unsimplified = simplify(path, [InputSpec("x", (SIZE, *net.shape))], SimplifyOptions(enabled=False))
    check(path, unsimplified, {"x": 0})
    one, few = simplify(path).reference, made.reference
    again = run(path.read_bytes(), {"x": few.inputs["x"][:1]})["y"]
    np.testing.assert_allclose(few.outputs["y"][:1], again, rtol=1e-4, atol=1e-5)
    assert one.outputs["y"].shape[0] == 1


@pytest.mark.parametrize("culprit", REFUSED)
def test_a_node_that_knows_of_one_sample_is_named(culprit: str, tmp_path: Path) -> None:
    net = REFUSED[culprit]
    with pytest.raises(TvmbuildError) as caught:
        simplify(save(net, tmp_path), [InputSpec("x", (SIZE, *net.shape))], name="net")
    if "makes b" in culprit:  # moved, not lost: the following Reshape does not work
        culprit = "Reshape that makes y"
    said = f"net: the ONNX file has a batch of 1, which cannot be changed to 3: {culprit}: "
    assert caught.value.message.startswith(said)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("export the model with that batch or a dynamic first dimension")


def test_a_file_that_does_not_run_at_all_is_no_matter_of_the_batch(tmp_path: Path) -> None:
    net = Net([CONV, node("MatMul", "a", "m")], W | {"m": weights(7, 7)}, PICTURE)
    with pytest.raises(TvmbuildError, match="cannot run net's original model"):
        simplify(save(net, tmp_path), [InputSpec("x", (SIZE, *net.shape))], name="net")


@pytest.mark.parametrize(
    "word",
    [
        "mobilenet_v2",
        "silero_vad",
        *(
            pytest.param(str(SHARED / "models" / f"{name}.onnx"), marks=pytest.mark.shared, id=name)
            for name in ("nanodet_m", "ultraface_slim320_sim", "yolox_nano", "yunet_n_320")
        ),
    ],
)
def test_networks(word: str) -> None:
    path = find_network(word)
    one = simplify(path, options=SimplifyOptions(enabled=False)).inputs
    axes = {each.name: 1 if each.name == "state" else 0 for each in one}
    shapes = [tuple(SIZE if i == axes[t.name] else size for i, size in enumerate(t.shape)) for t in one]
    made = simplify(path, [InputSpec(t.name, shape) for t, shape in zip(one, shapes, strict=True)])
    assert made.is_simplified
    check(path, made, axes)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"a": (4, 3), "b": (5, 3)}, "only one of each input can be changed, to the same number for all"),
        ({"a": (4, 3), "b": (4, 4)}, "dimension 1 of the input b [1, 3] is 3, models.yaml says 4"),
    ],
)
def test_batches_that_do_not_fit(shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in "ab"]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))
    graph = helper.make_graph([node("Add", "a", "b")], "net", inputs, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "n.onnx")
    with pytest.raises(TvmbuildError) as caught:
        simplify(tmp_path / "n.onnx", [InputSpec(*item) for item in shapes.items()], name="net")
    assert message in caught.value.message


def test_an_input_that_all_samples_share_stays_as_it_is(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in "ab"]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in "yz"]
    graph = helper.make_graph([node("Add", "a", "b"), node("Neg", "b", out="z")], "net", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "n.onnx")
    reference = simplify(tmp_path / "n.onnx", [InputSpec("a", (4, 3))], name="net").reference
    assert {name: value.shape for name, value in reference.outputs.items()} == {"y": (4, 3), "z": (1, 3)}
    np.testing.assert_array_equal(reference.outputs["y"], reference.inputs["a"] + reference.inputs["b"])
