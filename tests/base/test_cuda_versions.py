"""Drivers of CUDA: what each knows, and which of a target's settings do not fit together."""

from __future__ import annotations

from typing import Any

import pytest

from tvmbuild.base.cuda_versions import JETPACK_4, choose_driver, find_mistake, ptx_version, read_version


@pytest.mark.parametrize(
    ("attributes", "driver"),
    [
        ({"arch": "sm_87"}, "12.0"),
        ({"arch": "sm_72", "driver": "11.4"}, "11.4"),
        ({"arch": "sm_72"}, "11.4"),
        ({"arch": "sm_72", "driver": "12.2"}, "12.2"),
        ({"arch": "sm_120"}, "12.8"),
        ({"arch": "sm_110"}, "13.0"),
        ({"arch": "sm_999"}, "12.0"),
        ({}, "12.0"),
    ],
)
def test_a_target_without_a_driver_takes_the_usual_or_the_nearest_of_its_arch(attributes: Any, driver: str) -> None:
    assert choose_driver(attributes) == read_version(driver)


@pytest.mark.parametrize(
    ("driver", "arch", "ptx"),
    [
        ("11.4", "sm_87", "7.4"),
        ("11.8", "sm_90", "7.8"),
        ("12.0", "sm_86", "8.0"),
        ("12.5", "sm_86", "8.5"),
        ("12.6", "sm_86", "8.5"),
        ("12.8", "sm_120", "8.7"),
        ("12.9", "sm_90", "8.8"),
        ("13.0", "sm_90", "9.0"),
    ],
)
def test_the_ptx_of_a_driver(driver: str, arch: str, ptx: str) -> None:
    assert ptx_version(read_version(driver), arch) == read_version(ptx)


@pytest.mark.parametrize(
    ("data", "mistake"),
    [
        ({"arch": "sm_87", "driver": "11.4"}, None),
        ({"arch": "sm_90a", "driver": "12.2"}, None),
        ({"arch": "sm_87", "driver": "10.2"}, "no runtime uses a driver of CUDA 10.2"),
        ({"arch": "sm_87", "driver": "11.9"}, "tvmbuild knows no CUDA 11.9"),
        ({"arch": "sm_87", "driver": "11.8"}, None),
        ({"arch": "sm_87", "driver": "12.9"}, None),
        ({"arch": "sm_87", "driver": "12.10"}, "tvmbuild knows no CUDA 12.10"),
        ({"arch": "sm_87", "driver": "12.15"}, "tvmbuild knows no CUDA 12.15"),
        ({"arch": "sm_87", "driver": "13.9"}, None),
        ({"arch": "sm_87", "driver": "14.0"}, "tvmbuild knows no CUDA 14.0"),
        ({"arch": "sm_90", "driver": "11.4"}, "a driver of CUDA 11.4 does not know sm_90"),
        ({"arch": "sm_120", "driver": "12.2"}, "a driver of CUDA 12.2 does not know sm_120"),
        ({"arch": "sm_72", "driver": "13.0"}, "CUDA 13 compiles nothing for sm_72"),
        ({"arch": "sm_53"}, f"sm_53 boards have at most JetPack 4; {JETPACK_4}"),
        ({"arch": "sm_62", "driver": "11.4"}, f"sm_62 boards have at most JetPack 4; {JETPACK_4}"),
        ({"arch": "sm_90a", "ptx": True}, "code for sm_90a runs on no later card"),
    ],
)
def test_settings_that_do_not_fit_together(data: Any, mistake: str | None) -> None:
    found = find_mistake(data)
    assert (found and found[1]) == mistake
