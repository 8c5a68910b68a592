"""A separate process that converts a .pt2: ``python -m tvmbuild.preparing.pt2.convert_process FILE.pt2 FOLDER``.

FOLDER gets the ONNX and torch's outputs for some inputs, or the error, by the names in
`tvmbuild.preparing.pt2.convert`.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import torch
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.processes import die_with_parent
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.onnx_graph import MAX_BYTES
from tvmbuild.preparing.pt2.convert import ERROR, HINT, INPUT, OUTPUT, RESULT
from tvmbuild.preparing.pt2.program import Program, shorten

_OPERATORS = re.compile(rb'"torch\.ops\.(\w+)\.')
_DEVICES = re.compile(rb'"device": ?\{"type": ?"(\w+)"')
_LIBRARIES = {"torchvision", "torchaudio"}
"""The libraries that register their operators when imported, under the library's name."""
_PASSING, _INNER = "tvmbuild output ", " inner"
"""The outputs' temporary names, until no other value has theirs, and the suffix of other values with such a name."""
_NO_FUNCTION = re.compile(r"No ONNX function found for <OpOverload\(op='([^']+)', overload='([^']+)'\)>")


def main(path: Path, folder: Path) -> int:
    """Return 0 if the model is written, 1 if the error is."""
    die_with_parent()
    try:
        program = Program(load_program(path))
        program.check()
        sets = program.compute_sets()
        data = export(program, list(sets[0].results))
    except TvmbuildError as error:
        write_json(folder / ERROR, {"message": error.message, "hint": error.hint})
        return 1
    for index, each in enumerate(sets):
        arrays = {f"{INPUT}{name}": value for name, value in each.feeds.items()}
        arrays |= {f"{OUTPUT}{name}": value for name, value in each.results.items()}
        np.savez(folder / f"set{index}.npz", **cast("dict[str, Any]", arrays))
    write_bytes(folder / RESULT, data)
    return 0


def load_program(path: Path) -> Any:
    """Return the exported program; TvmbuildError if this torch cannot load it."""
    with zipfile.ZipFile(path) as archive:
        texts = [archive.read(name) for name in archive.namelist() if name.endswith(".json")]
    others = {found.decode() for text in texts for found in _DEVICES.findall(text)} - {"cpu", "meta"}
    if others and not torch.cuda.is_available():
        raise TvmbuildError(
            f"it was exported on {', '.join(sorted(others))}, and cannot be loaded on a machine without one",
            "export it on the CPU: `torch.export.export(model.cpu(), …)`",
        )
    used = {found.decode() for text in texts for found in _OPERATORS.findall(text)}
    for library in sorted(used & _LIBRARIES):
        _import_operators(library)
    try:
        program = torch.export.load(path)
    except Exception as error:  # torch raises many kinds of errors
        raise TvmbuildError(
            f"torch {torch.__version__} cannot load it: {shorten(error)}",
            "save it again with this version of torch; its operators and types must be PyTorch's own, or torchvision's",
        ) from error
    if others:
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415 - not in torch 2.6

        program = move_to_device_pass(program, "cpu")
    return program


def _import_operators(library: str) -> None:
    try:
        import_module(library)
    except ImportError as error:
        raise TvmbuildError(
            f"it uses operators of {library}, which is not installed",
            f"`pip install {library}`, with the pip of {sys.executable}",
        ) from error


def export(program: Program, outputs: list[str]) -> bytes:
    """Return the ONNX with the program's own names; TvmbuildError if the exporter cannot express it."""
    if program.size > MAX_BYTES:
        raise TvmbuildError("its weights are larger than 2 GB", "models that large are not supported")
    passing = [f"{_PASSING}{index}" for index in range(len(outputs))]
    try:
        with redirect_stdout(io.StringIO()):
            made = torch.onnx.export(
                program.exported, dynamo=True, verbose=False, input_names=program.names, output_names=passing
            )
        proto = made.model_proto
    except Exception as error:  # the exporter raises many kinds of errors
        raise TvmbuildError(f"torch.onnx cannot convert it: {_explain_export(error)}", HINT) from error
    _forget_origins(proto)
    _rename(proto, {name: f"{name}{_INNER}" for name in outputs} | dict(zip(passing, outputs, strict=True)))
    try:
        data: bytes = proto.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise TvmbuildError("in ONNX it is larger than 2 GB", "models that large are not supported") from error
    return data


def _explain_export(error: BaseException) -> str:
    """Return the operator that has no ONNX function, or the first cause."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    found = _NO_FUNCTION.search(str(root)) or _NO_FUNCTION.search(str(error))
    return f"there is no ONNX function for {found[1]}.{found[2]}" if found else shorten(root)


def _rename(proto: onnx.ModelProto, names: dict[str, str]) -> None:
    """Rename values wherever they occur: the exporter renames outputs even if another value has the name."""
    for graph in (proto.graph, *_subgraphs(proto.graph.node)):
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = names.get(value.name, value.name)
        for node in graph.node:
            for side in (node.input, node.output):
                side[:] = [names.get(name, name) for name in side]


def _forget_origins(proto: onnx.ModelProto) -> None:
    """Remove the exporting machine's code lines and paths, and torch's version: equal graphs become equal bytes."""
    proto.producer_version = ""
    del proto.metadata_props[:]
    for graph in (proto.graph, *_subgraphs(proto.graph.node)):
        for each in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
            del each.metadata_props[:]
            each.doc_string = ""


def _subgraphs(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        for graph in (attribute.g, *attribute.graphs):
            if graph.node:
                yield graph
                yield from _subgraphs(graph.node)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
