"""Fixtures that load the runtime for tests that need a device."""

from __future__ import annotations

import pytest

from tvmbuild.package.runtime.vulkan.plugin import load_plugin


@pytest.fixture(autouse=True)
def _plugin(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("vulkan") is not None:
        load_plugin()
