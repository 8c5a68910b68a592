"""A reader of dataclasses from JSON objects, for dataclasses whose fields are numbers, texts, Booleans or None."""

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
"""Name of a field's type → the Python types that a parsed JSON value of the field may have."""


def read_fields(kind: type[Any], data: Mapping[str, Any]) -> Any:
    """Build the dataclass ``kind`` from a JSON object with a value for each field. Other keys are ignored.

    Raises KeyError if a value is missing, and TypeError if a value has not the field's type or is not finite.
    """
    names = [field.name for field in fields(kind)]
    for field in fields(kind):
        value = data[field.name]
        allowed = {each for name in str(field.type).split(" | ") for each in _PLAIN.get(name, ())}
        if type(value) not in allowed or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"{field.name} is {value!r}")
    return kind(**{name: data[name] for name in names})
