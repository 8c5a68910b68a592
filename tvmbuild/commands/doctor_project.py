"""What the doctor says of the project around the current folder: which of its targets this machine builds and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmbuild.availability import explain_unavailable
from tvmbuild.capabilities import Capabilities
from tvmbuild.commands.doctor_checks import Finding
from tvmbuild.specs import TargetSpec


def check_targets(targets: Sequence[TargetSpec], capabilities: Capabilities) -> Iterator[Finding]:
    """Yield a finding for each target; the reasons name the remedy."""
    for target in targets:
        what = f"target {target.name}"
        unbuilt = explain_unavailable("compile", target, capabilities)
        idle = explain_unavailable("benchmark", target, capabilities)
        if unbuilt:
            yield Finding("missing", what, "is not built here", unbuilt)
        elif target.device.kind == "none":
            yield Finding("ok", what, "is built here; it has no device to run on")
        elif idle:
            yield Finding("missing", what, "is built here and does not run", idle)
        else:
            yield Finding("ok", what, f"is built here and runs on {target.num_cores} threads")
