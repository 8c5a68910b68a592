"""Make the models, pictures and truths of this project: python prepare.py MODELS PICTURES.

MODELS has the four ONNX files that models.yaml names, PICTURES has dog.jpg, astronaut.png, chelsea.png and coffee.png.
Each of 32 pictures to calibrate by, and of 64 to judge detectors and 200 to judge the classifier by, is a part of one
of them, some mirrored, darker or brighter. There are no labels: the float network's own answers above a score of
0.3 are the truths, so the figures tell what quantising changes, not how good a network is.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import score  # type: ignore[import-not-found]  # beside this file
from PIL import Image

from tvmbuild.base.specs import ModelSpec
from tvmbuild.config.load import load_project
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import list_samples
from tvmbuild.preparing.reference import open_onnx

HERE = Path(__file__).parent
MODELS = {name: f"{name}.onnx" for name in ("yolox_nano", "nanodet_m", "efficientnet_lite0")}
MODELS |= {"yolov3_tiny": "yolov3_tiny_decoded.onnx"}
DECODERS = {"yolox_nano": score.decode_yolox, "nanodet_m": score.decode_nanodet, "yolov3_tiny": score.decode_yolov3}
PICTURES = ("dog.jpg", "astronaut.png", "chelsea.png", "coffee.png")
LEAST = 0.3
"""The score from which a float network's object or class is a truth."""


def main(models: Path, pictures: Path) -> None:
    """Write everything beside this file."""
    (HERE / "models").mkdir(exist_ok=True)
    for name, file in MODELS.items():
        shutil.copy(models / file, HERE / "models" / file)
        (HERE / f"{name}.json").write_text("{}")
    for folder, seed, count in (("cal", 0, 32), ("val", 1, 64), ("classes", 2, 200)):
        _draw(pictures, HERE / folder, np.random.RandomState(seed), count)
    for model in load_project(HERE).models:
        _write_truths(model)


def _draw(pictures: Path, folder: Path, random: np.random.RandomState, count: int) -> None:
    folder.mkdir(exist_ok=True)
    images = [Image.open(pictures / name).convert("RGB") for name in PICTURES]
    for index in range(count):
        image = images[index % len(images)]
        side = int(min(image.size) * random.uniform(0.6, 1))
        x, y = (random.randint(0, size - side + 1) for size in image.size)
        part = image.crop((x, y, x + side, y + side))
        if random.rand() < 0.5:
            part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        light = np.clip(np.asarray(part, np.float32) * random.uniform(0.7, 1.2), 0, 255)
        Image.fromarray(light.astype(np.uint8)).save(folder / f"{index:02}.png")


def _write_truths(model: ModelSpec) -> None:
    accuracy = model.accuracy
    if accuracy is None:
        return
    data = (HERE / model.source.location).read_bytes()
    value = onnx.load_from_string(data).graph.input[0]
    shape = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    takes = ModelInputs(model.name, (TensorInfo(value.name, shape, "float32"),), model.preprocess)
    run, decode = open_onnx(data, model.name, optimized=True), DECODERS.get(model.name)
    truths = {}
    samples = list_samples(accuracy, [HERE / path for path in accuracy.paths], takes)
    for path, inputs in zip(accuracy.paths, samples, strict=True):
        outputs = run(inputs)
        found = None if decode is None else score.find_objects(*decode(outputs), least=LEAST)
        truths[path] = _find_class(outputs["logits"]) if found is None else found
    (HERE / f"{model.name}.json").write_text(json.dumps(truths))


def _find_class(logits: np.ndarray) -> int | None:
    shares = np.exp(logits - logits.max())
    return int(logits.argmax()) if shares.max() >= LEAST * shares.sum() else None


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
