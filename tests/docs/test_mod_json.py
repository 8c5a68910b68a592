"""The site's page about mod.json has every key that a package writes, with its meaning."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from site_pages import render_page

from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.operator_info import OperatorInfo


@pytest.mark.parametrize("part", [PackageInfo, PackageTarget, PackageCoverage, OperatorInfo, TensorInfo])
def test_every_key_is_described(part: type, project_root: Path) -> None:
    page = render_page(project_root, "reference/mod-json.md")
    assert [field.name for field in fields(part) if not re.search(rf"\| `{field.name}` \| \S", page)] == []
