"""The networks that benchmarks name: each has a stated source, and made ones are always made the same."""

from __future__ import annotations

from pathlib import Path

import network_files
import onnxruntime
import pytest
from network_files import find_inputs, find_network, list_networks
from site_pages import render_page

from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(network_files, "KEPT", tmp_path / "networks")
    return tmp_path / "networks"


def test_there_are_twelve_and_each_has_a_source_that_cannot_change_unseen() -> None:
    assert len(list_networks()) == 12
    for model in load_project(network_files.FOLDER).models:
        files = [model.source] if model.source.export is None else [each.source for each in model.source.export.files]
        assert all(source.kind == "path" or source.sha256 for source in files), model.name


def test_the_sites_page_of_times_has_them_all(project_root: Path) -> None:
    page = render_page(project_root, "explanation/performance.md")
    assert [name for name in list_networks() if f"| {name} |" not in page] == []


def test_a_name_a_file_and_neither(kept: Path, digits: Path) -> None:
    assert find_network("mobilenet_v2") == kept / "mobilenet_v2.onnx"
    assert find_network(str(digits)) == digits
    with pytest.raises(TvmbuildError, match="there is no network mobilenet") as caught:
        find_network("mobilenet")
    assert "Did you mean mobilenet_v2?" in str(caught.value.hint)
    with pytest.raises(TvmbuildError, match=r"there is no file none\.onnx"):
        find_network("none.onnx")
    assert [info.name for info in find_inputs("magika")] == ["bytes"]
    assert find_inputs("digits") == ()


def test_what_is_made_is_made_alike_and_once(kept: Path) -> None:
    path = find_network("yoeo_random")
    first, stamp = path.read_bytes(), path.stat().st_mtime_ns
    assert find_network("yoeo_random").stat().st_mtime_ns == stamp
    path.unlink()
    assert find_network("yoeo_random").read_bytes() == first
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [(each.name, each.shape) for each in session.get_inputs()] == [("InputLayer", [1, 3, 416, 416])]
    assert [each.name for each in session.get_outputs()] == ["Detections", "Segmentations"]
    assert path.parent == kept


def test_the_folder_is_a_project(project_root: Path) -> None:
    assert (network_files.FOLDER / "dodo.py").read_text() == (project_root / "dodo.py").read_text()
