"""The conversion of the model on the command line to an entry of models.yaml."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.files import sha256_file
from tvmbuild.base.source_specs import MODEL_SUFFIXES
from tvmbuild.cli.arguments import add_input_arguments
from tvmbuild.errors import TvmbuildError

NAME_LENGTH = 64
HUB_PREFIX = "hf://"
_HUB = re.compile(r"hf://([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)")


@dataclass(frozen=True)
class ModelWords:
    """A model of the command line: its entry in models.yaml, and the absolute paths of its files."""

    name: str
    data: dict[str, Any]
    """The entry of models.yaml without `source` and `labels`."""
    path: Path
    """The absolute path of the model's file."""
    labels: Path | None = None

    def data_in(self, folder: Path) -> dict[str, Any]:
        """Return the model's entry for a models.yaml in ``folder``, which must be an absolute path without links."""
        data = {"source": {"path": os.path.relpath(self.path, folder)}, **self.data}
        return {**data, "labels": os.path.relpath(self.labels, folder)} if self.labels else data


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that correspond to keys of models.yaml."""
    add_input_arguments(parser)
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help="a text file, one label a line; goes into the package"
    )
    parser.add_argument(
        "--preprocess",
        type=_yaml_map,
        metavar="YAML",
        help="how a picture becomes the input, as in models.yaml: 'mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]'",
    )
    parser.add_argument(
        "--postprocess",
        type=_yaml_map,
        metavar="YAML",
        help="the meaning of the outputs, as in models.yaml: 'boxes: {form: yolov8}'",
    )


def find_model(text: str, args: argparse.Namespace) -> ModelWords:
    """Return the model that ``text`` and the options describe.

    ``text`` is a path, or hf://owner/repository/FILE, which is downloaded. Raises TvmbuildError if a file is missing.
    """
    path = _fetch_from_hub(text) if text.startswith(HUB_PREFIX) else Path(text)
    if not path.is_file():
        raise explain_absence(path)
    if args.labels is not None and not args.labels.is_file():
        raise TvmbuildError(f"there is no file {args.labels}", "Correct --labels.")
    inputs: dict[str, dict[str, Any]] = {}
    for name, shape in args.shapes:
        inputs.setdefault(name, {})["shape"] = shape
    for name, value in args.values:
        inputs.setdefault(name, {})["value"] = json.loads(value)
    data = {"inputs": inputs} if inputs else {}
    for key in ("preprocess", "postprocess"):
        data |= {key: getattr(args, key)} if getattr(args, key) else {}
    return ModelWords(_as_name(path.stem), data, path.absolute(), args.labels and args.labels.absolute())


def _fetch_from_hub(text: str) -> Path:
    """Download the file of hf://owner/repository[@revision]/FILE, and print its SHA-256 for models.yaml.

    Return the path of the download. Raises TvmbuildError if ``text`` has another form or the download fails.
    """
    match = _HUB.fullmatch(text)
    if match is None:
        raise TvmbuildError(
            f"{text} names no file of the Hub", "Write hf://owner/repository/model.onnx, or with @revision."
        )
    repository, revision, file = match.groups()
    from tvmbuild.sources.hub import download_hub  # noqa: PLC0415 - only hf:// models need it

    path = download_hub(repository, file, revision)
    print(f"{text} is sha256: {sha256_file(path)}", file=sys.stderr)
    return path


def state_shapes(model: ModelWords) -> dict[str, Any]:
    """Return `inputs` of models.yaml with a shape for every input that the ONNX file leaves open.

    The given inputs are included. An open first dimension becomes 1. Raises TvmbuildError that lists the inputs with
    other open dimensions, or names a given input that the model does not have.
    """
    from tvmbuild.preparing.onnx_graph import graph_inputs, load_model  # noqa: PLC0415 - imports onnx

    inputs: dict[str, dict[str, Any]] = dict(model.data.get("inputs", {}))
    if model.path.suffix != ".onnx":
        return {"inputs": inputs} if inputs else {}
    values = graph_inputs(load_model(model.path, model.path.name))
    known = [value.name for value in values]
    for name in inputs.keys() - set(known):
        near = suggest(find_nearest(name, known))
        raise TvmbuildError(f"{model.path.name} has no input {name}", f"{near}Correct --shape or --value.")
    missing = []
    for value in values:
        sizes = [dim.dim_value or dim.dim_param or "?" for dim in value.type.tensor_type.shape.dim]
        if value.name in inputs or all(isinstance(size, int) for size in sizes):
            continue
        shape = [1, *sizes[1:]]
        if all(isinstance(size, int) for size in shape):
            inputs[value.name] = {"shape": shape}
        else:
            missing.append(f"--shape {value.name}={','.join(map(str, shape))}")
    if missing:
        raise TvmbuildError(
            f"{model.path.name} leaves dimensions of its inputs open", f"State them as numbers: {' '.join(missing)}"
        )
    return {"inputs": inputs} if inputs else {}


def explain_absence(path: Path) -> TvmbuildError:
    """Return the error that no model is at that path. Its hint names the nearest file in the folder."""
    if path.is_dir():
        return TvmbuildError(f"{path} is a folder", f"Name a model's file: {', '.join(MODEL_SUFFIXES)}.")
    folder = path.parent
    beside = sorted(each.name for each in folder.iterdir() if each.suffix in MODEL_SUFFIXES) if folder.is_dir() else []
    near = find_nearest(path.name, beside)
    listed = f"There are {', '.join(beside[:8])}." if beside else f"Name a model's file: {', '.join(MODEL_SUFFIXES)}."
    return TvmbuildError(f"there is no file {path}", f"{suggest(near and str(folder / near))}{listed}")


def _as_name(stem: str) -> str:
    return re.sub(r"[^a-z0-9_.-]+", "_", stem.lower()).lstrip("_.-")[:NAME_LENGTH] or "model"


def _yaml_map(text: str) -> dict[str, Any]:
    try:
        is_whole = text.lstrip().startswith("{") or "\n" in text.strip()
        data = yaml.safe_load(text if is_whole else f"{{{text}}}")
    except yaml.YAMLError:
        data = None
    if not isinstance(data, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a map such as 'mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]'")
    return data
