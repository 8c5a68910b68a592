"""Pieces of HTML and SVG: whatever is no `Html` is text from outside, and escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

VOID = frozenset({"input", "meta", "br"})


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


NOTHING = Html("")
"""No markup, for a part that has nothing to show."""


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """Return the element with its children and attributes, all escaped but what is `Html`.

    Attributes: a trailing ``_`` is dropped and another one is a hyphen (``class_``, ``aria_label``); None and False are
    left out, True has no value, numbers are written shortly.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        parts.append(written if value is True else f'{written}="{escape(_shorten(value))}"')
    opened = Html(f"<{' '.join(parts)}>")
    return opened if name in VOID else Html(f"{opened}{join(children)}</{name}>")


def join(parts: Iterable[str], between: str = "") -> Html:
    """Return the parts one after the other, escaped but what is `Html`."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts))


def _shorten(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".rstrip("0").rstrip(".")


def make_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "", words: int = 1
) -> Html:
    """Return a table that scrolls by itself where it is too wide; its first ``words`` columns are no numbers.

    The first text of each row is the row's head. ``caption`` is for screen readers: a heading above says it to others.
    """
    kinds = ["words" if index < words else None for index in range(len(heads))]
    head = tag("tr", *(tag("th", name, scope="col", class_=kind) for name, kind in zip(heads, kinds, strict=True)))
    body = []
    for first, *rest in rows:
        cells = (tag("td", value, class_=kind) for value, kind in zip(rest, kinds[1:], strict=True))
        body.append(tag("tr", tag("th", first, scope="row", class_="words"), *cells))
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", join(body, "\n")))
    return tag("div", table, class_=f"wide {class_}".rstrip(), tabindex="0", role="region", aria_label=caption)


def make_list(title: str, entries: Iterable[str]) -> Html:
    """Return a heading and a list below it; nothing without entries."""
    items = [tag("li", entry) for entry in entries]
    return join([tag("h2", title), tag("ul", join(items, "\n"))], "\n") if items else NOTHING


def cell_id(name: str) -> str:
    """Return the id of the section of a cell, good as a link's fragment too."""
    return quote(name, safe="@")
