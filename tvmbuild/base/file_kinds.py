"""The kinds of files that users give by mistake, recognised by their first bytes, with a remedy for each kind."""

from __future__ import annotations

import os
import shlex
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_HEAD = 4096


@dataclass(frozen=True)
class FileKind:
    """The kind of a file that was given by mistake, and the remedy."""

    name: str
    """The kind with its article, for messages: `an HTML page`."""
    remedy: str
    """The remedy, a sentence."""
    is_sure: bool = True
    """True if no other contents can begin with the same bytes by accident. Weights, for example, can."""


def recognise(path: Path) -> FileKind | None:
    """Return the kind of a file that was given as a model or its weights, or None if the kind is not known."""
    return _recognise(path, (_find_pointer, _find_page, _find_compressed, _find_archive, _find_model, _find_other))


def recognise_wrapping(path: Path) -> FileKind | None:
    """Return the kind of the file if it is a pointer, a page or a compressed file in place of another, else None."""
    return _recognise(path, (_find_pointer, _find_page, _find_compressed))


def is_exported_program(path: Path) -> bool:
    """Return whether `torch.export.save` wrote the file, whatever the file's name is."""
    try:
        with path.open("rb") as stream:
            if stream.read(2) != b"PK":
                return False
        with zipfile.ZipFile(path) as archive:
            return _has_program(archive.namelist())
    except (OSError, zipfile.BadZipFile, ValueError):
        return False


def _has_program(names: Sequence[str]) -> bool:
    within = {*names, *(name.partition("/")[2] for name in names)}
    is_program = any(name.startswith("models/") and name.endswith(".json") for name in within)
    return (is_program and "archive_format" in within) or "serialized_exported_program.json" in within  # the older form


_Finder = Callable[[Path, bytes, int], "FileKind | None"]


def _recognise(path: Path, finders: Sequence[_Finder]) -> FileKind | None:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
            size = os.fstat(stream.fileno()).st_size
    except OSError:
        return None
    found = (find(path, head, size) for find in finders)
    return next((kind for kind in found if kind is not None), None)


def _find_pointer(path: Path, head: bytes, size: int) -> FileKind | None:
    shown = shlex.quote(_within_repository(path))
    if head.startswith(b"version https://git-lfs.github.com/spec/") and size < 1024:
        return FileKind("a Git LFS pointer, not the file itself", f"`git lfs pull --include {shown}` fetches it.")
    if head.startswith((b"/annex/objects/", b"../.git/annex/objects/")) and size < _HEAD:
        return FileKind("a git-annex pointer, not the file itself", f"`git annex get {shown}` fetches it.")
    return None


def _within_repository(path: Path) -> str:
    """Return the path relative to the root of its git repository, as `git lfs pull --include` requires it.

    Outside a repository, return the file's name.
    """
    path = path.absolute()
    for folder in path.parents:
        if (folder / ".git").exists():
            return path.relative_to(folder).as_posix()
    return path.name


def _find_page(_path: Path, head: bytes, _size: int) -> FileKind | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:512].lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<!-- ")):
        return FileKind(
            "an HTML page",
            "Download the file itself: its address has `raw` (GitHub) or `resolve` (Hugging Face) in place of `blob`.",
        )
    if text.startswith((b"<?xml", b"<error")):
        if b"<net " in text:
            return FileKind("a model of OpenVINO's", "Give the ONNX file that it was made from.")
        return FileKind("an XML file, as servers answer when something is wrong", "Download the file itself.")
    return None


def _find_compressed(path: Path, head: bytes, _size: int) -> FileKind | None:
    shown = shlex.quote(str(path))
    for magic, name, program in _COMPRESSED:
        if head.startswith(magic):
            if name == "gzip" and _is_tar(_inflate(head)):
                return FileKind("a tar archive packed by gzip", f"`tar xzf {shown}` unpacks it.", is_sure=False)
            return FileKind(
                f"a file packed by {name}",
                f"`{program} < {shown} > NEW` unpacks it.",
                is_sure=len(magic) > _ACCIDENT,
            )
    return None


def _find_archive(path: Path, head: bytes, _size: int) -> FileKind | None:
    shown = shlex.quote(str(path))
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _describe_zip(path, shown)
    if _is_tar(head):
        return FileKind("a tar archive", f"`tar xf {shown}` unpacks it.")
    return None


_ACCIDENT = 4
"""The largest number of magic bytes that may be the beginning of weights by accident."""
_COMPRESSED = (
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\xfd7zXZ\x00", "xz", "unxz"),
    (b"BZh", "bzip2", "bunzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
)


def _inflate(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head)
    except zlib.error:
        return b""


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


_EXPORT = "Export it to ONNX first: `source: {export: …}` in models.yaml runs your own script that does."


def _describe_zip(path: Path, shown: str) -> FileKind:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError):
        return FileKind("a zip archive that is damaged", "Fetch it again, whole.", is_sure=False)
    within = {name.partition("/")[2] or name for name in names}
    if "data.pkl" in within or "archive_format" in within:
        if _has_program(names):
            return FileKind("a program of torch.export", "Call it .pt2 if you trust it: loading one may run its code.")
        return FileKind("a file of PyTorch's", _EXPORT)
    if any(name.endswith(".npy") for name in names):
        return FileKind("an .npz, arrays of NumPy", "Give the ONNX file that belongs to it.")
    if "model.weights.h5" in within or ("config.json" in within and any(name.endswith(".h5") for name in within)):
        return FileKind("a model of Keras", "Convert it to ONNX first, as by `model.export(…, format='onnx')`.")
    return FileKind("a zip archive", f"`unzip {shown}` unpacks it.")


def _find_model(path: Path, head: bytes, size: int) -> FileKind | None:
    for offset, magic, name, remedy in _MODELS:
        if head[offset : offset + len(magic)] == magic:
            return FileKind(name, remedy.format(shlex.quote(str(path))), is_sure=len(magic) > _ACCIDENT)
    if head[8:9] == b"{" and 2 <= struct.unpack("<Q", head[:8])[0] < size:
        return FileKind("a safetensors file: weights without a graph", _EXPORT, is_sure=False)
    if (
        head[:1] == b"\x80"
        and b"\x02" <= head[1:2] <= b"\x05"
        and any(word in head for word in (b"ctorch", b"numpy", b"\x8a\n"))
    ):
        return FileKind("a pickle of Python's, as PyTorch wrote once", _EXPORT, is_sure=False)
    return _find_tensorflow(path, head)


_MODELS = (
    (
        4,
        b"TFL3",
        "a model of TensorFlow Lite",
        "Convert it to ONNX first: `python -m tf2onnx.convert --tflite {} --output NEW.onnx`.",
    ),
    (4, b"ORTM", "a model in ONNX Runtime's own format", "Give the .onnx file that it was made from."),
    (0, b"GGUF", "a GGUF file, of llama.cpp", "Give an ONNX file of the network."),
    (
        0,
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file, as Keras writes",
        "Convert it to ONNX first: `model.export(…, format='onnx')`.",
    ),
)
"""The offset of the bytes, the bytes, the name of the format, and the remedy."""


def _find_tensorflow(path: Path, head: bytes) -> FileKind | None:
    if head.startswith(b"\x08\x01\x12") and head[3:4] >= b"\x80":  # in an ONNX file a short name stands there
        command = f"python -m tf2onnx.convert --saved-model {shlex.quote(str(path.parent))} --output NEW.onnx"
        return FileKind("a SavedModel of TensorFlow", f"Convert it to ONNX first: `{command}`.", is_sure=False)
    if head[:1] == b"\x0a" and any(name in head for name in (b"\x12\x0bPlaceholder", b"\x12\x05Const")):
        command = f"python -m tf2onnx.convert --graphdef {shlex.quote(str(path))} --output NEW.onnx"
        return FileKind("a graph of TensorFlow", f"Convert it to ONNX first: `{command} …`.", is_sure=False)
    return None


def _find_other(_path: Path, head: bytes, _size: int) -> FileKind | None:
    if not head:
        return FileKind("an empty file", "Fetch or export it again.", is_sure=False)
    for magic, name in _OTHERS.items():
        if head.startswith(magic):
            return FileKind(name, "Give the file that is meant.", is_sure=len(magic) > _ACCIDENT)
    return None


_OTHERS = {
    b"\x89PNG\r\n\x1a\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF-": "a PDF file",
    b"\x7fELF": "an ELF file, a program or a library",
    b"\x93NUMPY": "an .npy, an array of NumPy",
}
