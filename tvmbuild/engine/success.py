"""What is kept of a step's last success, to be compared with what it would be made from now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvmbuild.engine.file_digests import Digest


@dataclass(frozen=True)
class Success:
    """What the step was made from, and what it wrote."""

    fingerprint: Mapping[str, str]
    inputs: Mapping[str, Digest]
    """By role, those too that only the source names."""
    outputs: Mapping[str, Digest]

    def to_json(self) -> dict[str, object]:
        """Return the JSON value."""
        return {"fingerprint": self.fingerprint, "inputs": self.inputs, "outputs": self.outputs}


def read_success(value: object) -> Success | None:
    """Return what `to_json` gave; None where this is none."""
    if not isinstance(value, dict) or not {"fingerprint", "inputs", "outputs"} <= value.keys():
        return None
    return Success(value["fingerprint"], value["inputs"], value["outputs"])
