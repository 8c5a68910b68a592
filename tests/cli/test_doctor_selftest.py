"""The option `tvmbuild doctor --vulkan-selftest`: every class of kernels, and its message without a device."""

from __future__ import annotations

import pytest

from tvmbuild.cli import main
from tvmbuild.cli.doctor.selftest_models import make_cases
from tvmbuild.errors import end_sentence
from tvmbuild.targets.vulkan import explain_vulkan_here

pytestmark = pytest.mark.compiler


@pytest.mark.vulkan
@pytest.mark.nightly
def test_every_class_of_kernels_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--vulkan-selftest"]) == 0
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in make_cases())
    assert "every number is right" in printed
    assert "::progress" not in printed


def test_without_a_device_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    reason = explain_vulkan_here()
    if reason is None:
        pytest.skip("there is a Vulkan device")
    assert main(["doctor", "--vulkan-selftest"]) == 1
    assert capsys.readouterr().err == f"error: there is no Vulkan device to test\n  hint: {end_sentence(reason)}\n"
