"""The recorded facts of a step's last success, which are compared with the present ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvmbuild.engine.file_digests import Digest


@dataclass(frozen=True)
class Success:
    """The dependencies and the outputs of a successful step."""

    fingerprint: Mapping[str, str]
    inputs: Mapping[str, Digest]
    """The digests of the inputs by role, including files that only the source names."""
    outputs: Mapping[str, Digest]

    def to_json(self) -> dict[str, object]:
        """Return the success as a JSON value, which `read_success` reads."""
        return {"fingerprint": self.fingerprint, "inputs": self.inputs, "outputs": self.outputs}


def read_success(value: object) -> Success | None:
    """Parse the output of `to_json`. Return None if the value has another form."""
    if not isinstance(value, dict) or not {"fingerprint", "inputs", "outputs"} <= value.keys():
        return None
    return Success(value["fingerprint"], value["inputs"], value["outputs"])
