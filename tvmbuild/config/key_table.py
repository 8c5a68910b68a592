"""The keys of a part of models.yaml or targets.yaml, from the schema: for the terminal and for the site."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvmbuild.config.schema import load_schema

WIDTH = 100


@dataclass(frozen=True)
class Key:
    """A key of a map in a YAML file."""

    name: str
    default: str
    """The default as JSON, a text without its quotes; `required`; or empty if the meaning states it."""
    meaning: str
    values: tuple[str, ...]
    """The words that the key takes. Empty if it takes others."""


def list_parts(file: str) -> list[str]:
    """Return the names of the parts of `models` or `targets` that are maps with named keys."""
    definitions = load_schema(file)["$defs"]
    forms = [form for part in definitions.values() for form in part.get("oneOf", ())]
    return sorted(name for name, part in definitions.items() if part not in forms and any(_list_maps(part)))


def list_keys(file: str, part: str) -> list[Key]:
    """Return the keys of a part. A part with several forms has the keys of all of them."""
    maps = list(_list_maps(load_schema(file)["$defs"][part]))
    options = {name: option for each in reversed(maps) for name, option in each["properties"].items()}
    order = dict.fromkeys(name for each in maps for name in each["properties"])
    required = set.intersection(*(set(each.get("required", ())) for each in maps))
    return [_read_key(name, options[name], name in required) for name in order]


def _list_maps(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in (part, *part.get("oneOf", ())):
        if "properties" in each:
            yield each


def _read_key(name: str, option: dict[str, Any], required: bool) -> Key:
    value = option.get("default", "required" if required else "")
    values = tuple(option.get("enum") or option.get("items", {}).get("enum") or ())
    return Key(name, value if isinstance(value, str) else json.dumps(value), option.get("description", ""), values)


def format_text(file: str, part: str) -> str:
    """Return the part's keys for the terminal."""
    lines = [load_schema(file)["$defs"][part].get("description", ""), ""]
    for key in list_keys(file, part):
        lines.append(f"{key.name}" + (f" ({_word_default(key)})" if key.default else ""))
        lines += textwrap.wrap(key.meaning, WIDTH, initial_indent="    ", subsequent_indent="    ")
        lines += textwrap.wrap(", ".join(key.values), WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines).lstrip() + "\n"


def _word_default(key: Key) -> str:
    return key.default if key.default == "required" else f"default: {key.default}"


def format_markdown(file: str, part: str, without: str = "") -> str:
    """Return the part's keys as a table of Markdown. Keys that are the same in the part `without` are left out."""
    hidden = set(list_keys(file, without)) if without else set()
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for key in list_keys(file, part):
        if key in hidden:
            continue
        default = key.default if key.default in ("", "required") else f"`{key.default}`"
        values = f" Values: {', '.join(f'`{value}`' for value in key.values)}." if key.values else ""
        meaning = (key.meaning + values).replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{key.name}` | {default} | {meaning} |")
    return "\n".join(lines)
