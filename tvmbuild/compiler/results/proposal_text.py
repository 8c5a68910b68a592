"""A proposed result as a line of models.yaml."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tvmbuild.base.exported import MAX_SHOWN
from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.open_dimensions import quote_name
from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, Masks, Postprocess, kind_of


def write_line(asked: Sequence[Postprocess]) -> str:
    """Return `postprocess: {…}` with the fields that differ from their defaults. Results of one kind become a list."""
    kinds = {kind_of(each): [_write_result(other) for other in asked if type(other) is type(each)] for each in asked}
    written = (f"{kind}: {each[0] if len(each) == 1 else _write_list(each)}" for kind, each in kinds.items())
    return f"postprocess: {{{', '.join(written)}}}"


def _write_result(asked: Postprocess) -> str:
    given = {each.name: getattr(asked, each.name) for each in fields(asked)}
    defaults = {each.name: each.default for each in fields(asked)}
    shown = {name: value for name, value in given.items() if value != defaults[name] and name != "outputs"}
    if len(shown.get("labels", ())) > MAX_SHOWN:
        del shown["labels"]
    labels = {"labels": shown.pop("labels")} if "labels" in shown else {}
    outputs = _name_outputs(asked)
    form = {"form": shown.pop("form")} if isinstance(asked, Boxes) else {}
    written = (f"{name}: {_write_value(value)}" for name, value in {**form, **outputs, **shown, **labels}.items())
    return f"{{{', '.join(written)}}}"


def _name_outputs(asked: Postprocess) -> dict[str, Any]:
    """Return the keys (`output:` …) that name a result's outputs, in the result's order."""
    if not asked.outputs:
        return {}
    if isinstance(asked, Boxes) and asked.form in GRID_FORMS:
        return {"outputs": asked.outputs}
    keys = ["output"]
    if isinstance(asked, Masks):
        keys.append("prototypes")
    elif isinstance(asked, Boxes) and BOX_FORMS[asked.form].split:
        keys += ["boxes", "classes"]
    return dict(zip(keys, asked.outputs, strict=False))


def _write_value(value: Any) -> str:
    if isinstance(value, tuple):
        return _write_list([_write_value(each) for each in value])
    if isinstance(value, str):
        return quote_name(value)
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _write_list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"
