from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tvmbuild.base.layout import cache_dir, downloads_dir
from tvmbuild.base.source_specs import Source
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources import fetch as module
from tvmbuild.sources import url as url_module
from tvmbuild.sources.fetch import fetch

CONTENT = b"the bytes of a model"
SHA = hashlib.sha256(CONTENT).hexdigest()
SETUP = 'raise SystemExit("an sdist must never be executed")'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(url_module, "RETRIES_S", ())


@pytest.fixture
def offline_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of distributions, the only one that pip knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(folder: Path, version: str = "1.0") -> None:
    info = f"shipped_model-{version}.dist-info"
    with zipfile.ZipFile(folder / f"shipped_model-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("shipped_model/data/model.onnx", CONTENT)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: shipped-model\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def make_sdist(folder: Path, name: str = "source_model") -> None:
    with tarfile.open(folder / f"{name}-2.0.tar.gz", "w:gz") as sdist:
        for path, content in (("setup.py", SETUP.encode()), ("weights/model.onnx", CONTENT)):
            info = tarfile.TarInfo(f"{name}-2.0/{path}")
            info.size = len(content)
            sdist.addfile(info, io.BytesIO(content))


def package(requirement: str, file: str, sha256: str = SHA) -> Source:
    return Source("package", requirement, file, sha256)


def refused(source: Source, root: Path) -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught:
        fetch(source, root)
    assert caught.value.hint
    return caught.value


def test_a_path_is_relative_to_the_root(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    assert fetch(Source("path", "m.onnx"), tmp_path) == tmp_path / "m.onnx"


def test_a_missing_path_lists_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    assert "that folder has net.onnx" in refused(Source("path", "m.onnx"), tmp_path).message


def test_a_download_goes_on_after_a_run_that_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not the file's beginning is fetched again; no partial file ever lies under the digest."""
    seen: list[bytes] = []
    partial = downloads_dir() / f".{SHA}.part.tmp"

    def download(_url: str, path: Path) -> Path:
        assert not (downloads_dir() / SHA).exists()
        seen.append(path.read_bytes())
        path.write_bytes(seen[-1] + CONTENT[len(seen[-1]) :])
        return path

    monkeypatch.setattr(module, "download_url", download)
    for before in (CONTENT[:4], b"other"):
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(before)
        found = fetch(Source("url", "https://example.org/net.onnx", None, SHA), tmp_path)
        assert (found.read_bytes(), partial.exists(), seen[0]) == (CONTENT, False, before)
        assert found.stat().st_mode & 0o444 == 0o444
        found.unlink()
        seen.clear()
    wrong = refused(Source("url", "https://example.org/net.onnx", None, "0" * 64), tmp_path)
    assert wrong.message.startswith("wrong sha256 of https://example.org/net.onnx")
    assert sorted(path.name for path in downloads_dir().iterdir()) == []


def test_a_path_with_a_digest_is_checked(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"other")
    error = refused(Source("path", "m.onnx", sha256=SHA), tmp_path)
    assert f"expected {SHA}, got {hashlib.sha256(b'other').hexdigest()}" in error.message


def test_a_url_is_fetched_once(tmp_path: Path) -> None:
    served = tmp_path / "served.onnx"
    served.write_bytes(CONTENT)
    source = Source("url", served.as_uri(), sha256=SHA)
    first = fetch(source, tmp_path)
    served.unlink()
    assert fetch(source, tmp_path) == first
    assert first.read_bytes() == CONTENT


def test_a_damaged_cache_is_fetched_again(tmp_path: Path) -> None:
    served = tmp_path / "served.onnx"
    served.write_bytes(CONTENT)
    source = Source("url", served.as_uri(), sha256=SHA)
    fetch(source, tmp_path).write_bytes(b"damaged")
    assert fetch(source, tmp_path).read_bytes() == CONTENT


def test_a_wrong_digest_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    served = tmp_path / "served.onnx"
    served.write_bytes(b"tampered")
    assert "wrong sha256" in refused(Source("url", served.as_uri(), sha256=SHA), tmp_path).message
    assert [path for path in cache_dir().rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://example.invalid/m.onnx", "neither https nor file"),
        ("ftp://example.invalid/m.onnx", "neither https nor file"),
        ("https://127.0.0.1:1/m.onnx", "cannot download https://127.0.0.1:1/m.onnx: "),
        ("https://name.invalid/m.onnx", "cannot download https://name.invalid/m.onnx: "),
        ("file:///no/such/file.onnx", "cannot download file:///no/such/file.onnx: "),
    ],
)
def test_an_unreachable_url_says_why(tmp_path: Path, url: str, message: str) -> None:
    assert message in refused(Source("url", url, sha256=SHA), tmp_path).message


def test_a_file_of_a_wheel(tmp_path: Path, offline_index: Path) -> None:
    make_wheel(offline_index)
    assert fetch(package("shipped-model==1.0", "shipped_model/data/model.onnx"), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("file", ["weights/model.onnx", "source_model-2.0/weights/model.onnx"])
def test_a_file_of_an_sdist_without_running_it(tmp_path: Path, offline_index: Path, file: str) -> None:
    make_sdist(offline_index)
    assert fetch(package("source-model==2.0", file), tmp_path).read_bytes() == CONTENT


def test_a_missing_file_names_the_nearest(tmp_path: Path, offline_index: Path) -> None:
    make_wheel(offline_index)
    error = refused(package("shipped-model==1.0", "shipped_model/model.onnx"), tmp_path)
    assert "has no file shipped_model/model.onnx; the nearest: shipped_model/data/model.onnx" in error.message


def test_a_wrong_digest_of_a_packaged_file(tmp_path: Path, offline_index: Path) -> None:
    make_wheel(offline_index)
    error = refused(package("shipped-model==1.0", "shipped_model/data/model.onnx", "0" * 64), tmp_path)
    assert f"expected {'0' * 64}, got {SHA}" in error.message


def test_a_missing_version_names_the_nearest(tmp_path: Path, offline_index: Path) -> None:
    make_wheel(offline_index, "1.0")
    make_wheel(offline_index, "1.2")
    error = refused(package("shipped-model==1.3", "x"), tmp_path)
    assert re.search(r"shipped-model==1.3 does not exist; the nearest versions: 1\.[02], 1\.[02]", error.message)


@pytest.mark.usefixtures("offline_index")
def test_a_missing_package(tmp_path: Path) -> None:
    assert (
        "pip finds neither a wheel nor an sdist of nothing-here==1"
        in refused(package("nothing-here==1", "x"), tmp_path).message
    )


def test_an_unreachable_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline_index: Path) -> None:
    assert offline_index.is_dir()
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1:1/simple")
    assert "pip does not reach its package index" in refused(package("some-model==1", "x"), tmp_path).message


@pytest.mark.parametrize("requirement", ["model", "model>=1", "model==1 --index-url=x", "-r file", "a==1; x"])
def test_only_exact_versions(tmp_path: Path, requirement: str) -> None:
    assert "is not of the form name==version" in refused(package(requirement, "x"), tmp_path).message


@pytest.mark.parametrize("file", ["/etc/passwd", "../x", "a/../../x", ""])
def test_only_paths_inside(tmp_path: Path, offline_index: Path, file: str) -> None:
    make_wheel(offline_index)
    assert "is not a path inside a package" in refused(package("shipped-model==1.0", file), tmp_path).message


def test_a_damaged_archive(tmp_path: Path, offline_index: Path) -> None:
    make_sdist(offline_index)
    archive = offline_index / "source_model-2.0.tar.gz"
    archive.write_bytes(archive.read_bytes()[:60])
    assert "cannot read source_model-2.0.tar.gz" in refused(package("source-model==2.0", "x"), tmp_path).message


def test_a_link_in_an_archive_is_no_file(tmp_path: Path, offline_index: Path) -> None:
    with tarfile.open(offline_index / "source_model-2.0.tar.gz", "w:gz") as sdist:
        link = tarfile.TarInfo("source_model-2.0/model.onnx")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        sdist.addfile(link)
    assert "has no file model.onnx" in refused(package("source-model==2.0", "model.onnx"), tmp_path).message
