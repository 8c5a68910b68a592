"""The bytes example, built from the shipped records: it recognises real files of several types."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from example_project import build_example, copy_example, run_in_example
from network_files import find_network

from tvmbuild.package.archive import read_metadata

pytestmark = [pytest.mark.nightly, pytest.mark.compiler]

PACKAGE = "build/cells/magika@x86-64-v3/magika-x86-64-v3.tar"
SOURCE = """\
      package: magika==1.0.3
      file: magika/models/standard_v3_3/model.onnx
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    copy = copy_example(project_root, tmp_path_factory.mktemp("bytes"), "bytes")
    models = copy / "models.yaml"
    text = models.read_text()
    assert SOURCE in text
    # The wheel's file, whose digest stays in the YAML: the download stays in the cache.
    (copy / "model.onnx").symlink_to(find_network("magika"))
    models.write_text(text.replace(SOURCE, "      path: model.onnx\n"))
    build_example(copy, "compile")
    return copy


def identify(folder: Path, *files: Path) -> dict[str, str]:
    """Return path → the type that the script prints."""
    done = run_in_example(folder, "identify.py", PACKAGE, *map(str, files))
    assert done.returncode == 0, done.stdout
    return dict(line.split(": ", maxsplit=1) for line in done.stdout.splitlines())


def test_real_files_are_what_they_are(folder: Path, project_root: Path) -> None:
    coverage = read_metadata(folder / PACKAGE).coverage
    assert coverage.covered == coverage.tasks > 0, "the shipped records no longer fit"
    want = {
        project_root / "examples/classify/coffee.png": "png",
        project_root / "examples/bytes/identify.py": "python",
        project_root / "examples/bytes/README.md": "markdown",
        project_root / "tvmbuild/package/cpp/tvmbuild.cpp": "cpp",
        project_root / "models/mobilenet_v2.onnx": "onnx",
        folder / PACKAGE: "tar",
    }
    said = identify(folder, *want)
    assert {path: said[str(path)].split(" (")[0] for path in want} == want


def test_files_made_here_are_what_they_are(folder: Path, tmp_path: Path) -> None:
    data = json.dumps({"name": "value", "list": list(range(400))}, indent=1)
    (tmp_path / "data").write_text(data)
    (tmp_path / "zipped").write_bytes(gzip.compress(data.encode()))
    with zipfile.ZipFile(tmp_path / "archive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.json", data)
    with tarfile.open(tmp_path / "tape", "w") as tape:
        info = tarfile.TarInfo("data.json")
        info.size = len(data)
        tape.addfile(info, io.BytesIO(data.encode()))
    (tmp_path / "nothing").touch()
    (tmp_path / "blank").write_text("   a b\n")
    want = {"data": "json", "zipped": "gzip", "archive": "zip", "tape": "tar", "nothing": "empty", "blank": "too short"}
    said = identify(folder, *(tmp_path / name for name in want))
    assert {name: said[str(tmp_path / name)].split(" (")[0] for name in want} == want


@pytest.mark.parametrize("size", [8, 1023, 1024, 1025, 4096, 5000, 9000])
def test_features_are_those_of_the_documented_rules(folder: Path, tmp_path: Path, size: int) -> None:
    """The expected features do not use the script: 4,096 bytes of each end, stripped on the file's end, 1,024 kept."""
    content = b" \n\t" + bytes(33 + i % 200 for i in range(size)) + b"\r\n  "
    path = tmp_path / "file"
    path.write_bytes(content)
    head, tail = content[:4096].lstrip(), content[-4096:].rstrip()
    want = [head[i] if i < len(head) else 256 for i in range(1024)]
    want += [tail[i - 1024] if 1024 - i <= len(tail) else 256 for i in range(1024)]
    code = (
        "import numpy, pathlib, sys, identify as i; numpy.save('got.npy', i.read_features(pathlib.Path(sys.argv[1])))"
    )
    done = run_in_example(folder, "-c", code, str(path))
    assert done.returncode == 0, done.stdout
    np.testing.assert_array_equal(np.load(folder / "got.npy"), [want])
