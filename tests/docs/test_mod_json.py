"""The page about mod.json has every key that a package writes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.operator_info import OperatorInfo


@pytest.mark.parametrize("part", [PackageInfo, PackageTarget, PackageCoverage, OperatorInfo, TensorInfo])
def test_every_key_is_described(part: type, project_root: Path) -> None:
    page = (project_root / "docs/reference/mod-json.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(part) if f"`{field.name}`" not in page] == []
