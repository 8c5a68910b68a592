"""Dataclasses of plain values, read back from JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

_PLAIN: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "None": (type(None),),
}
"""The JSON types that each type of a field accepts."""


def read_fields(kind: type[Any], data: Mapping[str, Any]) -> Any:
    """Return the dataclass. Raises KeyError if a value is missing, TypeError if it is not of its field's type."""
    names = [field.name for field in fields(kind)]
    for field in fields(kind):
        value = data[field.name]
        allowed = {each for name in str(field.type).split(" | ") for each in _PLAIN[name]}
        if type(value) not in allowed or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"{field.name} is {value!r}")
    return kind(**{name: data[name] for name in names})
