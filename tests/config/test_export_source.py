"""The key `source: export:`: its values, and its mistakes with the exact message."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Export, ExportFile, Json, Source
from tvmbuild.config import load_project

SHA = "AB" * 32

FULL = f"""
models:
  net:
    source:
      export: models/make.py:make_net
      arguments: {{width: 32, name: "no", on: true, none: , shape: [1, 2.5, [a]], deep: {{b: 1, a: []}}}}
      files:
        weights: {{package: net==1.0, file: net/w.bin, sha256: {SHA}}}
        labels: {{path: models/labels.txt}}
        extra: {{url: https://example.org/w.bin, sha256: {SHA}}}
  plain:
    source: {{export: ./models/make.py:make_net}}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir(exist_ok=True)
    path = tmp_path / "models" / "make.py"
    path.write_text("def make_net(**given):\n    return None\n")
    return path


@pytest.mark.usefixtures("script")
def test_every_key_becomes_a_value(write_project: Callable[..., Path]) -> None:
    net, plain = load_project(write_project(models=FULL)).models
    assert net.source == Source(
        "export",
        "models/make.py",
        export=Export(
            "make_net",
            FrozenMap(
                {
                    "deep": Json('{"a":[],"b":1}'),
                    "name": Json('"no"'),
                    "none": Json("null"),
                    "on": Json("true"),
                    "shape": Json('[1,2.5,["a"]]'),
                    "width": Json("32"),
                }
            ),
            (
                ExportFile("extra", Source("url", "https://example.org/w.bin", None, SHA.lower())),
                ExportFile("labels", Source("path", "models/labels.txt")),
                ExportFile("weights", Source("package", "net==1.0", "net/w.bin", SHA.lower())),
            ),
        ),
    )
    assert plain.source == Source("export", "models/make.py", export=Export("make_net"))


CASES: dict[str, tuple[str, str]] = {
    "no function": (
        "{export: models/make.py}",
        '2:26: models.net.source.export: "models/make.py" is not valid; expected FILE.py:FUNCTION, such as export_net.py:make',
    ),
    "a module": (
        "{export: 'models.make:make_net'}",
        '2:26: models.net.source.export: "models.make:make_net" is not valid; expected FILE.py:FUNCTION, such as export_net.py:make',
    ),
    "no such file": (
        "{export: models/mak.py:make_net}",
        '2:26: models.net.source.export: the file models/mak.py does not exist; expected a path relative to the project\'s folder; did you mean "models/make.py"?',
    ),
    "a shell command": (
        "{export: 'models/make.py:make_net; rm -rf x'}",
        '2:26: models.net.source.export: "models/make.py:make_net; rm -rf x" is not valid; expected FILE.py:FUNCTION, such as export_net.py:make',
    ),
    "misspelt arguments": (
        "{export: models/make.py:make_net, argument: {}}",
        '2:51: models.net.source.argument: unknown key; expected export, arguments or files; did you mean "arguments"?',
    ),
    "arguments are a list": (
        "{export: models/make.py:make_net, arguments: [1]}",
        "2:62: models.net.source.arguments: found a list; expected a map",
    ),
    "argument with an impossible name": (
        "{export: models/make.py:make_net, arguments: {my-width: 1}}",
        "2:63: models.net.source.arguments.my-width: not a usable name; expected the name of a parameter: letters, digits and '_', the first no digit; did you mean \"my_width\"?",
    ),
    "a file is text": (
        "{export: models/make.py:make_net, files: {w: models/labels.txt}}",
        '2:62: models.net.source.files.w: found "models/labels.txt"; expected a map with exactly one of the keys path, url, package or hub; did you mean "path: models/labels.txt"?',
    ),
    "a file that is not there": (
        "{export: models/make.py:make_net, files: {w: {path: models/label.txt}}}",
        '2:69: models.net.source.files.w.path: the file models/label.txt does not exist; expected a path relative to the project\'s folder; did you mean "models/labels.txt"?',
    ),
    "a download without a digest": (
        "{export: models/make.py:make_net, files: {w: {url: https://example.org/w}}}",
        '2:59: models.net.source.files.w: the key "sha256" is missing; expected sha256: the file\'s own SHA-256',
    ),
    "an export among the files": (
        "{export: models/make.py:make_net, files: {w: {export: models/make.py:make_net}}}",
        "2:59: models.net.source.files.w: none of the keys path, url, package or hub is there; expected a map with exactly one of the keys path, url, package or hub\nmodels.yaml:2:63: models.net.source.files.w.export: unknown key; expected file, hub, package, path, revision, sha256 or url",
    ),
    "a parameter twice": (
        "{export: models/make.py:make_net, arguments: {w: 1}, files: {w: {path: models/labels.txt}}}",
        "2:78: models.net.source.files.w: the parameter is also among `arguments`; expected each parameter once",
    ),
    "sha256 of what a function makes": (
        "{export: models/make.py:make_net, sha256: " + SHA + "}",
        "2:51: models.net.source.sha256: unknown key; expected export, arguments or files",
    ),
}


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("name", CASES)
def test_message_of_a_bad_export(name: str, load_mistakes: Callable[..., list[str]]) -> None:
    source, message = CASES[name]
    found = load_mistakes(models=f"models:\n  net: {{source: {source}}}\n")
    assert "\n".join(found) == f"models.yaml:{message}"


def test_a_model_that_is_off_needs_no_files(write_project: Callable[..., Path]) -> None:
    source = "{export: absent.py:make, files: {w: {path: absent.bin}}}"
    (net,) = load_project(write_project(models=f"models:\n  net: {{enabled: false, source: {source}}}\n")).models
    assert net.source.location == "absent.py"
