"""The YAML in pages is valid for models.yaml and targets.yaml."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from pages import list_pages
from shown_commands import list_blocks

from tvmbuild.config import load_project
from tvmbuild.config.schema import load_schema
from tvmbuild.errors import TvmbuildError


def test_whole_files_have_keys_and_values_of_the_schemas(project_root: Path) -> None:
    checked, wrong = 0, []
    for page in list_pages(project_root):
        for _, block in list_blocks(page.read_text(encoding="utf-8"), "yaml"):
            data = yaml.safe_load(block)
            for name in {"models", "targets"} & data.keys():
                validator = jsonschema.Draft202012Validator(load_schema(name))
                found = [error.message for error in validator.iter_errors({name: data[name]})]
                wrong += [f"{page.relative_to(project_root)}: {message}" for message in found]
                checked += 1
    assert wrong == []
    assert checked >= 8


def test_the_lines_for_known_networks_are_valid(project_root: Path) -> None:
    page = (project_root / "docs/how-to/frames.md").read_text(encoding="utf-8")
    table = page.partition("## Which lines for which network")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    validator = jsonschema.Draft202012Validator(load_schema("models"))
    checked, wrong = 0, []
    for network, *cells in rows:
        for key, cell in zip(("preprocess", "postprocess"), cells, strict=True):
            for code in re.findall(r"`(\{[^`…]*\})`", cell):
                model = {"source": {"path": "net.onnx"}, key: yaml.safe_load(code)}
                wrong += [f"{network}: {each.message}" for each in validator.iter_errors({"models": {"net": model}})]
                checked += 1
    assert wrong == []
    assert checked > 40


def test_readmes_two_files_are_a_project(project_root: Path, tmp_path: Path, digits: Path) -> None:
    blocks = [block for _, block in list_blocks((project_root / "README.md").read_text(encoding="utf-8"), "yaml")]
    names = [block.splitlines()[0].removeprefix("# ") for block in blocks]
    assert names == ["models.yaml", "targets.yaml"]
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block)
    with pytest.raises(TvmbuildError, match=r"models/my_net\.onnx does not exist"):
        load_project(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/my_net.onnx").write_bytes(digits.read_bytes())
    project = load_project(tmp_path)
    assert ([each.name for each in project.models], [each.name for each in project.targets]) == (["my_net"], ["my-pc"])
