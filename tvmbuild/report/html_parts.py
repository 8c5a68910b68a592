"""Pieces of HTML and SVG: anything that is not `Html` is text from outside, and escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

VOID = frozenset({"input", "meta", "br", "wbr"})


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


NOTHING = Html("")
"""No markup, for a part with nothing to show."""


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """Return the element with its children and attributes, all escaped except `Html`.

    Attributes: a trailing ``_`` is dropped and another one is a hyphen (``class_``, ``aria_label``); None and False are
    left out, True has no value, numbers are written with few digits, enough for SVG's lengths.
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
    """Join the parts, all escaped except `Html`."""
    return Html(between.join(part if isinstance(part, Html) else escape(part, quote=False) for part in parts))


def wrap_name(name: str) -> Html:
    """Return a name that breaks after its underscores if it is too long, as `conv2d_add_maximum` is on a phone."""
    return join(name.split("_"), "_<wbr>")


def mark_code(text: str) -> Html:
    """Return a text in which commands and keys, written `so`, are set as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # an odd quotation mark is an ordinary character
        return join([text])
    return join(tag("code", piece) if index % 2 else piece for index, piece in enumerate(pieces))


def _shorten(value: str | float) -> str:
    return (
        value if isinstance(value, str) else f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}".removesuffix(".0")
    )


def make_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "", words: int = 1
) -> Html:
    """Return a table that scrolls if it is too wide; its first ``words`` columns hold text (1 to 3).

    The first text of each row is the row's head. ``caption`` is for screen readers; sighted readers see a heading
    above.
    """
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    body = [tag("tr", tag("th", first, scope="row"), *(tag("td", value) for value in rest)) for first, *rest in rows]
    parts = (tag("caption", caption), tag("thead", head), tag("tbody", join(body, "\n")))
    return tag("div", tag("table", *parts, class_=f"w{words}"), class_=f"wide {class_}".rstrip())


def make_list(title: str, entries: Iterable[str]) -> Html:
    """Return a heading and a list below it; empty without entries."""
    items = [tag("li", mark_code(entry)) for entry in entries]
    return join([tag("h2", title), tag("ul", join(items, "\n"))], "\n") if items else NOTHING


def cell_id(name: str) -> str:
    """Return the id of a cell's section, which is also valid as a link's fragment."""
    return quote(name, safe="@")
