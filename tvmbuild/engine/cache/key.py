"""What a step's outputs are cached under: all that they depend on, and nothing of where the project lies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tvmbuild.base.files import canonical_json
from tvmbuild.base.steps import AnyStep, BenchmarkStep, has_options
from tvmbuild.devices.table import device_kind
from tvmbuild.engine.file_digests import Digest
from tvmbuild.engine.fingerprint import fingerprint

FORMAT = 1


def make_key(step: AnyStep, inputs: Mapping[str, Digest]) -> str | None:
    """Return 64 hex digits; None for a step whose outputs hold only for a device that cannot be told from others.

    ``inputs`` are the digests of all files that the step reads, external data included, by role.
    """
    device = _identify_device(step.options) if has_options(step, BenchmarkStep) else {}
    if device is None:
        return None
    parts = {
        "format": FORMAT,
        "stage": step.stage,
        "fingerprint": fingerprint(step),
        "inputs": {role: sha256 for role, (_, _, sha256) in inputs.items()},
        "device": device,
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def _identify_device(options: BenchmarkStep) -> dict[str, str] | None:
    return device_kind(options.device).identify(options.device, options.kind)
