"""Pieces of HTML and SVG. A text that is not `Html` comes from outside and is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

VOID = frozenset({"input", "meta", "br", "wbr"})


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


NOTHING = Html("")
"""Empty markup, for a part that has nothing to show."""


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """Return the element with its children and attributes, all escaped except `Html`.

    In an attribute's name, a trailing ``_`` is dropped and any other becomes a hyphen (``class_``, ``aria_label``).
    None and False leave the attribute out, and True gives it no value. Numbers are written with few digits, enough for
    SVG's lengths.
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
    """Return the parts joined by ``between``, all escaped except `Html`."""
    return Html(between.join(part if isinstance(part, Html) else escape(part, quote=False) for part in parts))


def wrap_name(name: str) -> Html:
    """Return a name that breaks after its underscores if it is too long for a line, for example on a phone."""
    return join(name.split("_"), "_<wbr>")


def mark_code(text: str) -> Html:
    """Return the text with the parts between backticks, commands and keys, set as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a backtick without a partner is an ordinary character
        return join([text])
    return join(tag("code", piece) if index % 2 else piece for index, piece in enumerate(pieces))


def _shorten(value: str | float) -> str:
    return (
        value if isinstance(value, str) else f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}".removesuffix(".0")
    )


def make_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "", words: int = 1
) -> Html:
    """Return a table that scrolls if it is too wide. Its first ``words`` columns, 1 to 3, hold text.

    The first text of each row is the row's heading. ``caption`` is for screen readers, because sighted readers see a
    heading above the table.
    """
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    body = [tag("tr", tag("th", first, scope="row"), *(tag("td", value) for value in rest)) for first, *rest in rows]
    parts = (tag("caption", caption), tag("thead", head), tag("tbody", join(body, "\n")))
    return tag("div", tag("table", *parts, class_=f"w{words}"), class_=f"wide {class_}".rstrip())


def make_list(title: str, entries: Iterable[str]) -> Html:
    """Return a heading with a list below it, or nothing if there are no entries."""
    items = [tag("li", mark_code(entry)) for entry in entries]
    return join([tag("h2", title), tag("ul", join(items, "\n"))], "\n") if items else NOTHING


def cell_id(name: str) -> str:
    """Return the id of the section of the cell ``name``. It is also valid as the fragment of a link."""
    return quote(name, safe="@")
