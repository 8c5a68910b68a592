from __future__ import annotations

import pytest

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize(
    ("triple", "normal"),
    [
        ("x86_64-conda-linux-gnu", "x86_64-linux-gnu"),
        ("x86_64-pc-linux-gnu", "x86_64-linux-gnu"),
        ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu"),
        ("x86_64-linux-gnu", "x86_64-linux-gnu"),
        ("arm64-apple-darwin22.0.0", "arm64-apple-darwin22.0.0"),
    ],
)
def test_triple_without_a_vendor(triple: str, normal: str) -> None:
    from tvmbuild.devices.local.describe import normalise_triple

    assert normalise_triple(triple) == normal


def test_features_that_a_virtual_machine_hides() -> None:
    from tvmbuild.devices.local.describe import _find_hidden

    features = {"avx2", "avx512vnni", "amx-tile", "bmi", "bmi2", "sse2", "fma", "movbe", "aes"}
    flags = frozenset({"avx2", "avx512_vnni", "bmi1", "bmi2", "fma"})
    assert _find_hidden(features, flags, "x86_64") == ["amx-tile", "movbe"]
    assert _find_hidden(features, frozenset(), "x86_64") == []
    assert _find_hidden({"neon", "sve", "crc"}, frozenset({"asimd"}), "aarch64") == ["sve"]
