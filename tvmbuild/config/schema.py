"""The check of a Document against its JSON Schema. jsonschema finds the violations, and EXPLAIN words them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError

from tvmbuild.config.document import Document
from tvmbuild.config.violations import EXPLAIN, Violation, explain_other
from tvmbuild.devices.table import DEVICES

SCHEMAS = {"models": "models.schema.json", "targets": "targets.schema.json"}


def schema_text(name: str) -> str:
    """Return the shipped schema of models.yaml (`models`) or targets.yaml (`targets`) as text."""
    return (Path(__file__).parent / "schemas" / SCHEMAS[name]).read_text(encoding="utf-8")


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return the schema of `schema_text` with every `$ref` replaced by its content.

    Following the references would take half of the time of a check. The branches of `device:` come from the table of
    devices.
    """
    schema: dict[str, Any] = json.loads(schema_text(name))
    definitions = schema["$defs"]
    if "device" in definitions:
        definitions["device"]["anyOf"] = list_device_branches(definitions["device"]["anyOf"][0])

    def expand(part: Any) -> Any:
        if isinstance(part, list):
            return [expand(item) for item in part]
        if not isinstance(part, dict):
            return part
        if isinstance(part.get("$ref"), str):
            return definition(part["$ref"].removeprefix("#/$defs/"))
        return {key: expand(item) for key, item in part.items() if key != "$defs"}

    @cache
    def definition(name: str) -> Any:
        return expand(definitions[name])

    return {**expand(schema), "$defs": {key: definition(key) for key in definitions}}


def list_device_branches(words: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the branches of `device:`: one for the names of kinds without options, and a map for each other kind.

    ``words`` is the branch for the names. The shipped file, which editors read, has the same content.
    """
    names = [name for name, kind in DEVICES.items() if kind.schema is None]
    return [
        {**words, "enum": names},
        *(
            {
                "type": "object",
                "description": kind.about,
                "additionalProperties": False,
                "properties": {name: kind.schema},
                "required": [name],
            }
            for name, kind in DEVICES.items()
            if kind.schema is not None
        ),
    ]


def check_schema(document: Document, name: str) -> None:
    """Report every violation of the schema as a mistake of the document."""
    validator = jsonschema.Draft202012Validator(load_schema(name))
    broken = {mistake.path for mistake in document.mistakes}
    seen = set()
    for violation in _list_violations(validator.iter_errors(document.data)):
        if violation.keyword == "required" and violation.path in seen:
            continue  # jsonschema reports each missing key, and the first report here has all of them
        if violation.keyword == "type" and violation.path in broken:
            continue  # an alias that contains itself has no type, and is reported already
        if violation.keyword == "required":
            seen.add(violation.path)
        EXPLAIN.get(violation.keyword, explain_other)(document, violation)


def _list_violations(errors: Iterable[ValidationError]) -> Iterator[Violation]:
    """Yield the violations. For anyOf and oneOf, yield those of the branch that the user meant, if that is clear."""
    for error in errors:
        branches: Any = error.validator_value
        branch = _choose_branch(branches, error.instance) if error.validator in ("anyOf", "oneOf") else None
        if branch is not None:
            yield from _list_violations(inner for inner in error.context or [] if inner.schema_path[0] == branch)
            continue
        schema: Any = error.schema
        yield Violation(
            keyword=str(error.validator),
            wanted=error.validator_value,
            schema=schema,
            path=tuple(error.absolute_path),
            value=error.instance,
            is_name="propertyNames" in error.absolute_schema_path,
            message=error.message,
        )


def _choose_branch(branches: list[dict[str, Any]], value: object) -> int | None:
    """Return the index of the branch that the value is meant for, or None if not exactly one fits.

    A branch fits if it is the only one for lists or for maps, or if the map has the branch's first required key.
    """
    kind = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else None
    of_kind = [i for i, branch in enumerate(branches) if kind is not None and branch.get("type") == kind]
    if len(of_kind) == 1 or not isinstance(value, dict):
        return of_kind[0] if len(of_kind) == 1 else None
    fits = [i for i, branch in enumerate(branches) if "required" in branch and branch["required"][0] in value]
    return fits[0] if len(fits) == 1 else None
