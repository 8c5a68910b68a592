"""The fingerprint: a step's dependencies besides its files, as flat (name, text) pairs to compare and show."""

from __future__ import annotations

import dataclasses

from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.masking import mask_credentials
from tvmbuild.base.source_specs import Json
from tvmbuild.base.steps import AnyStep

_OF_EVERY_DEVICE = {"tracker": None, "key": None, "timeout_s": 60.0, "arch": None}
"""The fields, with default values, that the fingerprint of every kind of device has, because all kinds once shared one
class.
"""


def fingerprint(step: AnyStep) -> dict[str, str]:
    """Return the step's options, tools, environment and stage version, as texts by dotted name.

    The settings of one run, for example the mode of tuning, are not included.
    """
    pairs = dict(_flatten("option", step.options))
    pairs |= {f"tool {name}": version for name, version in step.tools.items()}
    pairs |= {f"environment {name}": value for name, value in step.environment.items()}
    pairs["stage version"] = str(step.version)
    return pairs


def _flatten(prefix: str, value: object) -> list[tuple[str, str]]:
    if dataclasses.is_dataclass(value):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if _counts(each, value)}
        if isinstance(value, DeviceSpec):
            fields = {"kind": value.kind, **_OF_EVERY_DEVICE, **fields}
        return [pair for name, inner in fields.items() for pair in _flatten(f"{prefix}.{name}", inner)]
    if isinstance(value, tuple) and value and all(dataclasses.is_dataclass(item) for item in value):
        return [pair for index, item in enumerate(value) for pair in _flatten(f"{prefix}[{index}]", item)]
    if isinstance(value, FrozenMap):
        if not value:
            return [(prefix, "[]")]
        return [(f"{prefix}.{name}", _show(inner)) for name, inner in value.items()]
    # Masked, because pairs are kept on disk and shown, and a new token for the same file must not run the step again.
    return [(prefix, mask_credentials(canonical_json(value)))]


def _counts(field: dataclasses.Field[object], value: object) -> bool:
    """Return whether the field is in the fingerprint.

    A field with the mark OMIT_WHEN_DEFAULT counts only if it differs from its default. A field with the mark
    NOT_FINGERPRINTED never counts.
    """
    if "told" in field.metadata:
        return False
    return "later" not in field.metadata or getattr(value, field.name) != field.default


def _show(value: object) -> str:
    return str(value) if isinstance(value, Json) else canonical_json(value)
