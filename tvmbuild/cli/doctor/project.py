"""What the doctor says of the project around the current folder: its targets on this machine, and its step cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.specs import CacheSpec, TargetSpec
from tvmbuild.devices.table import device_kind
from tvmbuild.engine.cache.entries import measure_usage
from tvmbuild.planning.availability import explain_unavailable


def check_targets(targets: Sequence[TargetSpec], capabilities: Capabilities) -> Iterator[Finding]:
    """Yield a finding for each target; the reasons name the remedy."""
    for target in targets:
        what, device = f"target {target.name}", device_kind(target.device)
        unbuilt = explain_unavailable("compile", target, capabilities)
        idle = explain_unavailable("benchmark", target, capabilities)
        if unbuilt:
            yield Finding("missing", what, "is not built here", unbuilt)
        elif not device.runs:
            yield Finding("ok", what, "is built here; it has no device to run on")
        elif idle:
            yield Finding("missing", what, "is built here and does not run", idle)
        else:
            yield Finding("ok", what, f"is built here and runs on {device.describe_use(target.device, target)}")


def check_cache(cache: CacheSpec | None) -> Finding:
    """Return what the step cache holds."""
    if cache is None:
        return Finding("ok", "step cache", "off; `cache:` in targets.yaml or TVMBUILD_CACHE names a folder for it")
    try:
        usage = measure_usage(cache.path)
    except OSError as error:
        remedy = "Name a folder that you may read and write; until then steps run without it."
        return Finding("missing", "step cache", f"{cache.path} cannot be read: {error.strerror}", remedy)
    entries = "1 entry" if usage.entries == 1 else f"{usage.entries} entries"
    return Finding("ok", "step cache", f"{entries}, {usage.size / 1e9:.2f} of {cache.size / 1e9:g} GB, in {cache.path}")
