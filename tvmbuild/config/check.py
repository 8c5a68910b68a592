"""A Document against its JSON Schema; every violation in words.

jsonschema finds the violations; this module says what was expected and which valid word is the nearest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError

from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath, find_nearest, list_words, show_value

SCHEMAS = {"models": "models.schema.json", "targets": "targets.schema.json"}

_TYPES = {
    "object": "a map",
    "array": "a list",
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_YAML_1_1 = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_SYNONYMS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
}


def schema_text(name: str) -> str:
    """Return the schema of models.yaml (`models`) or targets.yaml (`targets`) as it is shipped."""
    return (Path(__file__).parent / "schemas" / SCHEMAS[name]).read_text(encoding="utf-8")


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return that schema as data."""
    schema: dict[str, Any] = json.loads(schema_text(name))
    return schema


def check_schema(document: Document, name: str) -> None:
    """Report every violation of the schema."""
    validator = jsonschema.Draft202012Validator(load_schema(name))
    for error in _prune(validator.iter_errors(document.data)):
        _EXPLAIN.get(str(error.validator), _explain_other)(document, error)


def _prune(errors: Iterable[ValidationError]) -> list[ValidationError]:
    """Replace each anyOf and oneOf by the violations of the branch that was meant; one `required` a map."""
    found: list[ValidationError] = []
    seen: set[KeyPath] = set()
    for error in errors:
        if error.validator in ("anyOf", "oneOf"):
            branch = _choose_branch(error)
            if branch is not None:
                context = [inner for inner in error.context or [] if inner.schema_path[0] == branch]
                found += _prune(context)
                continue
        if error.validator == "required":
            if _path(error) in seen:
                continue
            seen.add(_path(error))
        found.append(error)
    return found


def _choose_branch(error: ValidationError) -> int | None:
    """Return the branch whose type is the value's and whose leading key the value has; None: no single one."""
    branches = error.validator_value
    value = error.instance
    if isinstance(value, dict):
        fits = [
            i for i, branch in enumerate(branches) if branch.get("type") == "object" and branch["required"][0] in value
        ]
    else:
        fits = [i for i, branch in enumerate(branches) if branch.get("type") == "string" and isinstance(value, str)]
    return fits[0] if len(fits) == 1 else None


def _path(error: ValidationError) -> KeyPath:
    return tuple(error.absolute_path)


def _explain_unknown(document: Document, error: ValidationError) -> None:
    valid = list(error.schema["properties"])
    absent = [key for key in valid if key not in error.instance]
    for key in error.instance:
        if key not in valid and not key.startswith("x-"):
            nearest = find_nearest(key, absent) or find_nearest(key, valid)
            document.report_key((*_path(error), key), "unknown key", list_words(valid), nearest)


def _explain_missing(document: Document, error: ValidationError) -> None:
    properties = error.schema.get("properties", {})
    missing = [key for key in error.validator_value if key not in error.instance]
    misspelt = {find_nearest(key, missing) for key in error.instance if key not in properties}
    for key in missing:
        if key not in misspelt or not properties:
            about = properties.get(key, {}).get("description")
            document.report_key(_path(error), f'the key "{key}" is missing', about and about.rstrip("."))


def _explain_type(document: Document, error: ValidationError) -> None:
    path, value = _path(error), error.instance
    types = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
    expected = list_words(_TYPES[name] for name in types)
    nearest = None
    if "string" in types and isinstance(value, (int, float)):
        text = document.texts.get(path, show_value(value))
        document.report(
            path,
            f"{text} is {'a number' if path in document.texts else 'a truth value'}",
            f"text; write it as '{text}'",
        )
        return
    if "boolean" in types and isinstance(value, str):
        nearest = _YAML_1_1.get(value.lower())
    elif "array" in types and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        nearest = f"[{document.texts.get(path, value)}]"
    document.report(path, f"{document.texts.get(path) or show_value(value)} is not {expected}", expected, nearest)


def _explain_choice(document: Document, error: ValidationError) -> None:
    choices = [str(choice) for choice in error.validator_value]
    value = error.instance
    nearest = find_nearest(str(value), choices) if isinstance(value, (str, int, float)) else None
    if isinstance(value, str) and _SYNONYMS.get(value) in choices:
        nearest = _SYNONYMS[value]
    what = document.texts.get(_path(error)) or show_value(value)
    document.report(_path(error), f"{what} is not valid", list_words(choices), nearest)


def _explain_pattern(document: Document, error: ValidationError) -> None:
    expected = str(error.schema["patternErrorMessage"])
    path = _path(error)
    if "propertyNames" in error.absolute_schema_path:
        name = error.instance
        usable = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in name.lower()).strip("-_.")[
            :64
        ]
        document.report_key((*path, name), "not a usable name", expected, usable or None)
    else:
        document.report(path, f"{show_value(error.instance)} is not valid", expected)


def _explain_bound(document: Document, error: ValidationError) -> None:
    word = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}[str(error.validator)]
    value = document.texts.get(_path(error), error.instance)
    side = "large" if error.validator == "maximum" else "small"
    document.report(_path(error), f"{value} is too {side}", f"{word} {error.validator_value}")


def _explain_length(document: Document, error: ValidationError) -> None:
    found = len(error.instance)
    what = "is empty" if not found else f"has {found} items"
    low, high = error.schema.get("minItems"), error.schema.get("maxItems")
    expected = f"{low} items" if low == high and low else "at least one character"
    document.report(_path(error), what, expected)


def _explain_repeat(document: Document, error: ValidationError) -> None:
    seen: list[object] = []
    for index, item in enumerate(error.instance):
        if item in seen:
            document.report((*_path(error), index), f"{show_value(item)} is repeated", "each item once")
        seen.append(item)


def _explain_branches(document: Document, error: ValidationError) -> None:
    """No branch or several fit: say which keys choose one."""
    branches = error.validator_value
    leading = [str(branch["required"][0]) for branch in branches if "required" in branch]
    words = [str(word) for branch in branches for word in branch.get("enum", ())]
    maps = f"{'a map with ' if words else ''}exactly one of {', '.join(leading)}"
    expected = f"{', '.join(words)} or {maps}" if words else f"a map with {maps}"
    path, value = _path(error), error.instance
    if not isinstance(value, dict):
        document.report(path, f"{show_value(value)} is not valid", expected)
        return
    present = [key for key in leading if key in value]
    if present:
        document.report_key((*path, present[1]), f"{list_words(present, 'and')} exclude each other", expected)
        return
    valid = {str(key) for branch in branches for key in branch.get("properties", ())}
    unknown = [key for key in value if key not in valid]
    for key in unknown:
        document.report_key((*path, key), "unknown key", list_words(sorted(valid)), find_nearest(key, valid))
    if not any(find_nearest(key, leading) for key in unknown):
        document.report_key(path, f"none of the keys {list_words(leading)} is there", expected)


def _explain_other(document: Document, error: ValidationError) -> None:
    document.report(_path(error), error.message)


_EXPLAIN: dict[str, Callable[[Document, ValidationError], None]] = {
    "additionalProperties": _explain_unknown,
    "required": _explain_missing,
    "type": _explain_type,
    "enum": _explain_choice,
    "pattern": _explain_pattern,
    "minimum": _explain_bound,
    "maximum": _explain_bound,
    "exclusiveMinimum": _explain_bound,
    "minItems": _explain_length,
    "maxItems": _explain_length,
    "minLength": _explain_length,
    "uniqueItems": _explain_repeat,
    "anyOf": _explain_branches,
    "oneOf": _explain_branches,
}
