from __future__ import annotations

from tvmbuild.cli.run.output import describe_places
from tvmbuild.package.profile import VM_FUNCTION, OperatorRow


def row(function: str, key: str | None, share: float) -> OperatorRow:
    return OperatorRow(function, function, key, 1, 10.0, share, None, None, None)


KERNEL, MACHINE = row("fused_conv2d", "0123456789abcdef", 0.7), row(VM_FUNCTION, None, 0.1)


def test_every_operator_on_the_device() -> None:
    assert describe_places("vulkan", [KERNEL, MACHINE]) == "every operator ran on the vulkan device"


def test_functions_of_the_runtime_are_the_hosts() -> None:
    rows = [KERNEL, MACHINE, row("tvm.contrib.sort.argsort", None, 0.2)]
    assert describe_places("vulkan", rows) == "not on the vulkan device, 20.0% of the time: tvm.contrib.sort.argsort"
