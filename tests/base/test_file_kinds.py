"""Files given in place of a model, its weights, a picture or labels are named, with the command that fixes it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tvmbuild.base.file_kinds import recognise, recognise_wrapping
from tvmbuild.base.source_specs import Source
from tvmbuild.errors import TvmbuildError
from tvmbuild.package import preprocess
from tvmbuild.package.archive import read_package
from tvmbuild.package.inputs import read_arrays
from tvmbuild.preparing.onnx_graph import load_model
from tvmbuild.sources.fetch import fetch
from tvmbuild.stages.entries import read_labels

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 123456\n" % (b"0" * 64)
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()


def make_zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


def make_tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("net.onnx"))
    return buffer.getvalue()


def make_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(1))
    return buffer.getvalue()


KINDS = {
    "pointer": (POINTER, "a Git LFS pointer, not the file itself", "`git lfs pull --include net.onnx`"),
    "annex": (b"/annex/objects/SHA256E-s1--0.onnx\n", "a git-annex pointer", "`git annex get net.onnx`"),
    "page": (PAGE, "an HTML page", "`resolve` (Hugging Face)"),
    "xml": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "an XML file", "Download"),
    "openvino": (b'<?xml version="1.0"?>\n<net name="net" version="11">', "a model of OpenVINO's", "ONNX file"),
    "gzip": (gzip.compress(b"model"), "a file packed by gzip", "`gunzip < "),
    "tgz": (gzip.compress(make_tar()), "a tar archive packed by gzip", "`tar xzf "),
    "xz": (lzma.compress(b"model"), "a file packed by xz", "`unxz < "),
    "bzip2": (bz2.compress(b"model"), "a file packed by bzip2", "`bunzip2 < "),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "a file packed by zstd", "`unzstd < "),
    "zip": (make_zip("net.onnx"), "a zip archive", "`unzip "),
    "tar": (make_tar(), "a tar archive", "`tar xf "),
    "torch": (make_zip("net/data.pkl", "net/data/0"), "a file of PyTorch's", "`source: {export: …}`"),
    "pt2": (make_zip("archive_format", "models/model.json"), "a program of torch.export", "Call it .pt2"),
    "named pt2": (
        make_zip("net/archive_format", "net/models/model.json"),
        "a program of torch.export",
        ".pt2 if you trust",
    ),
    "keras": (make_zip("config.json", "model.weights.h5"), "a model of Keras", "model.export"),
    "npz": (make_npz(), "an .npz, arrays of NumPy", "ONNX file"),
    "broken zip": (b"PK\x03\x04" + bytes(30), "a zip archive that is damaged", "again"),
    "pickle": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a pickle of Python's", "Export"),
    "safetensors": (struct.pack("<Q", len(HEADER)) + HEADER + bytes(4), "a safetensors file: weights", "Export"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(20), "a model of TensorFlow Lite", "tf2onnx.convert --tflite "),
    "ort": (b"\x1c\0\0\0ORTM" + bytes(20), "a model in ONNX Runtime's own format", ".onnx"),
    "gguf": (b"GGUF\x03\0\0\0", "a GGUF file", "ONNX"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(20), "an HDF5 file, as Keras writes", "model.export"),
    "saved model": (b"\x08\x01\x12\x80\x20\x0a" + bytes(20), "a SavedModel of TensorFlow", "--saved-model "),
    "graph": (b"\x0a\x19\x0a\x01x\x12\x0bPlaceholder", "a graph of TensorFlow", "--graphdef "),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(20), "a PNG picture", "file that is meant"),
    "empty": (b"", "an empty file", "again"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_named_with_what_mends_it(name: str, tmp_path: Path) -> None:
    content, said, remedy = KINDS[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    kind = recognise(path)
    assert kind is not None
    assert kind.name.startswith(said)
    assert remedy in kind.remedy


@pytest.mark.parametrize(
    "content", [b"no model", b"tench\ngoldfish\n", bytes(600), b"\x08\x08\x12\x07pytorch", b"\x08", b"\x80"]
)
def test_other_files_are_not_guessed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert recognise(path) is None
    assert recognise_wrapping(path) is None


def test_every_model_of_the_project_is_none_of_them(project_root: Path) -> None:
    for path in sorted((project_root / "models").glob("*.onnx")):
        assert recognise(path) is None, path


READERS: dict[str, Callable[[Path], object]] = {
    "model": lambda path: load_model(path, "net"),
    "labels": read_labels,
    "picture": preprocess.open_picture,
    "arrays": read_arrays,
    "package": read_package,
    "digest": lambda path: fetch(Source("path", path.name, sha256="0" * 64), path.parent),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("content", "said"),
    [(POINTER, "`git lfs pull --include"), (PAGE, "its address has `raw`"), (gzip.compress(b"x"), "`gunzip < ")],
    ids=["pointer", "page", "gzip"],
)
def test_whoever_reads_a_file_says_so(reader: str, content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(content)
    with pytest.raises(TvmbuildError) as caught:
        READERS[reader](path)
    assert "it is " in caught.value.message
    assert said in (caught.value.hint or "")


def test_the_path_of_a_pointer_is_that_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "my models" / "net.onnx"
    path.parent.mkdir()
    path.write_bytes(POINTER)
    kind = recognise_wrapping(path)
    assert kind is not None
    assert kind.remedy == "`git lfs pull --include 'my models/net.onnx'` fetches it."
