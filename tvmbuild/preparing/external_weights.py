"""The weights that an ONNX file keeps in other files, loaded into the model.

onnx can load them too, but refuses links, and Hugging Face's cache consists of links.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

from tvmbuild.base.external_data import locate_external
from tvmbuild.base.file_kinds import recognise
from tvmbuild.errors import TvmbuildError


def load_external_weights(proto: Any, path: Path, model: str) -> None:
    """Load the files that ``proto``, read from ``path``, names; TvmbuildError if one is missing or too short."""
    seen: dict[str, Path] = {}
    for tensor in _list_tensors(proto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        told = {entry.key: entry.value for entry in tensor.external_data}
        location = told.get("location", "")
        if location not in seen:
            seen[location] = _open(path, location, model)
        tensor.raw_data = _read(seen[location], told, f"{model}: the external data of {path} cannot be read", tensor)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def measure_external_weights(proto: Any) -> int:
    """Return how many bytes of the weights lie in other files, by the file's own account."""
    lengths = (
        entry.value
        for tensor in _list_tensors(proto)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "length"
    )
    return sum(int(length) for length in lengths if length.isdigit())


def _open(path: Path, location: str, model: str) -> Path:
    """Open the file, which must hold weights, and return it."""
    wrong = f"{model}: the external data of {path} cannot be read"
    if not location:
        raise TvmbuildError(f"{wrong}: a tensor names no file", "save the model again")
    found = locate_external(path, location)
    if not found.is_file():
        raise TvmbuildError(f"{wrong}: there is no {found}", "copy its data files, complete, beside the ONNX file")
    kind = recognise(found)
    if kind is not None and kind.is_sure:
        raise TvmbuildError(f"{wrong}: {found} is {kind.name}", kind.remedy)
    return found


def _read(found: Path, told: dict[str, str], wrong: str, tensor: Any) -> bytes:
    try:
        offset, length = int(told.get("offset", "0")), int(told["length"]) if "length" in told else None
    except ValueError as error:
        raise TvmbuildError(
            f"{wrong}: {tensor.name} has an invalid place in its file: {error}", "save the model again"
        ) from error
    try:
        size = found.stat().st_size
        if offset < 0 or (length or 0) < 0 or offset + (length or 0) > size:
            kind = recognise(found)
            if kind is not None:
                raise TvmbuildError(f"{wrong}: {found} is {kind.name}", kind.remedy)
            ends = f"{tensor.name} lies at {offset} to {offset + (length or 0)} of its {size} bytes"
            raise TvmbuildError(f"{wrong}: {found} is cut short: {ends}", "copy or fetch the whole file again")
        with found.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size - offset if length is None else length)
    except OSError as error:
        raise TvmbuildError(f"{wrong}: {found}: {error.strerror}", "make it readable") from error


def _list_tensors(proto: Any) -> Iterator[Any]:
    """Yield every tensor of the model, including those of subgraphs and functions, and sparse ones."""
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (
                *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                *attribute.sparse_tensors,
            ):
                yield from (sparse.values, sparse.indices)
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _of_graph(graph)
