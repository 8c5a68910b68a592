"""The violations of a schema, in words: the expected value, and the nearest valid word."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath, list_words, show_value

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
MANY = 14
"""The number of valid keys above which a message does not list them, because the documentation does."""

_SYNONYMS = {
    "arm64": "aarch64",
    "amd64": "x86_64",
    "x64": "x86_64",
    "cpu": "llvm",
    "nvidia": "cuda",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
}


@dataclass(frozen=True)
class Violation:
    """One value that violates one keyword of the schema. ``wanted`` is the keyword's value."""

    keyword: str
    wanted: Any
    schema: dict[str, Any]
    """The part of the schema that has the keyword."""
    path: KeyPath
    value: Any
    is_name: bool
    """True if the value is a key of the map at ``path``."""
    message: str
    """The message of jsonschema itself."""


def _explain_unknown(document: Document, violation: Violation) -> None:
    valid = list(violation.schema["properties"])
    absent = [key for key in valid if key not in violation.value]
    about = _as_clause(violation.schema.get("description", "this map"))
    expected = list_words(valid) if len(valid) <= MANY else f"one of the {len(valid)} keys of {about}"
    for key in violation.value:
        if key not in valid and not any(re.search(rule, key) for rule in violation.schema.get("patternProperties", ())):
            nearest = find_nearest(key, absent) or find_nearest(key, valid)
            document.report_key((*violation.path, key), "unknown key", expected, nearest)


def _explain_missing(document: Document, violation: Violation) -> None:
    properties = violation.schema.get("properties", {})
    missing = [key for key in violation.wanted if key not in violation.value]
    closed = violation.schema.get("additionalProperties") is False
    misspelt = {find_nearest(key, missing) for key in violation.value if closed and key not in properties}
    for key in missing:
        if key not in misspelt:
            about = properties.get(key, {}).get("description")
            expected = f"{key}: {_as_clause(about)}" if about else None
            document.report_key(violation.path, f'the key "{key}" is missing', expected)


def _as_clause(sentence: str) -> str:
    """Return a schema's description as the end of a sentence, without full stop and capital (except LLVM or ONNX)."""
    first = sentence[0] if sentence[1:2].isupper() else sentence[0].lower()
    return first + sentence[1:].rstrip(".")


def _explain_type(document: Document, violation: Violation) -> None:
    path, value = violation.path, violation.value
    types = violation.wanted if isinstance(violation.wanted, list) else [violation.wanted]
    expected = list_words(_TYPES[name] for name in types)
    nearest = None
    if "string" in types and isinstance(value, (int, float)):
        text, rule = document.texts.get(path, show_value(value)), violation.schema
        right = re.search(rule.get("pattern", ""), text)
        what = f"{text} is {'a number' if path in document.texts else 'no text'}"
        document.report(path, what, f"text; write it as '{text}'" if right else rule["patternErrorMessage"])
        return
    if "boolean" in types and isinstance(value, str):
        nearest = _YAML_1_1.get(value.lower())
    elif "array" in types and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        nearest = f"[{document.texts.get(path, value)}]"
    document.report(path, f"found {document.texts.get(path) or show_value(value)}", expected, nearest)


def _explain_choice(document: Document, violation: Violation) -> None:
    choices = [str(choice) for choice in violation.wanted]
    value = violation.value
    nearest = find_nearest(str(value), choices) if isinstance(value, (str, int, float)) else None
    if isinstance(value, str) and _SYNONYMS.get(value) in choices:
        nearest = _SYNONYMS[value]
    what = document.texts.get(violation.path) or show_value(value)
    document.report(violation.path, f"{what} is not valid", list_words(choices), nearest)


def _explain_pattern(document: Document, violation: Violation) -> None:
    expected = str(violation.schema["patternErrorMessage"])
    path = violation.path
    if violation.is_name:
        name = violation.value
        usable = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in name.lower()).strip("-_.")
        near = (usable[:64], usable.replace("-", "_").replace(".", "_"))
        fits = (word for word in near if re.search(violation.wanted, word))
        document.report_key((*path, name), "not a usable name", expected, next(fits, None))
    else:
        document.report(path, f"{show_value(violation.value)} is not valid", expected)


def _explain_bound(document: Document, violation: Violation) -> None:
    word = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}[violation.keyword]
    value = document.texts.get(violation.path, violation.value)
    side = "large" if violation.keyword == "maximum" else "small"
    document.report(violation.path, f"{value} is too {side}", f"{word} {violation.wanted}")


def _explain_length(document: Document, violation: Violation) -> None:
    found = len(violation.value)
    what = "is empty" if not found else f"has {found} items"
    low, high = violation.schema.get("minItems"), violation.schema.get("maxItems")
    expected = f"{low} items" if low == high and low else "at least one character"
    document.report(violation.path, what, expected)


def _explain_emptiness(document: Document, violation: Violation) -> None:
    keys = map(str, violation.schema["properties"])
    document.report_key(violation.path, "is empty", f"one or several of the keys {list_words(keys)}")


def _explain_repeat(document: Document, violation: Violation) -> None:
    seen: list[object] = []
    for index, item in enumerate(violation.value):
        if item in seen:
            document.report((*violation.path, index), f"{show_value(item)} is repeated", "each item once")
        seen.append(item)


def _explain_branches(document: Document, violation: Violation) -> None:
    """Report the keys that choose a branch, because none or several of them are present."""
    branches = violation.wanted
    leading = [str(branch["required"][0]) for branch in branches if "required" in branch]
    words = [str(word) for branch in branches for word in branch.get("enum", ())]
    if not leading:
        nearest = find_nearest(violation.value, words) if isinstance(violation.value, str) else None
        expected = f"{list_words(words)}, or a list of them"
        document.report(violation.path, f"{show_value(violation.value)} is not valid", expected, nearest)
        return
    expected = f"{', '.join([*words, ''])}a map with exactly one of the keys {list_words(leading)}"
    expected = expected.replace(", a map", " or a map")
    path, value = violation.path, violation.value
    if not isinstance(value, dict):
        nearest = None
        if isinstance(value, str):
            nearest = find_nearest(value, words) if words else f"{leading[0]}: {value}"
        document.report(path, f"found {show_value(value)}", expected, nearest)
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


def explain_other(document: Document, violation: Violation) -> None:
    """Report a violation in jsonschema's own words, for keywords that EXPLAIN does not have."""
    document.report(violation.path, violation.message)


EXPLAIN: dict[str, Callable[[Document, Violation], None]] = {
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
    "minProperties": _explain_emptiness,
    "uniqueItems": _explain_repeat,
    "anyOf": _explain_branches,
    "oneOf": _explain_branches,
}
