"""Every link of a page to a file of the project, or to a heading in it, has a target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pages import list_pages

_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r'\]\(([^()\s]+)\)|(?:src|href|srcset)="([^"]+)"')


def _list_links(text: str) -> Iterator[str]:
    yield from (first or second for first, second in _LINK.findall(_CODE.sub("", text)))


def _list_anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def _find_broken(page: Path) -> Iterator[str]:
    for link in _list_links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield link
        elif anchor and anchor not in _list_anchors(target.read_text(encoding="utf-8")):
            yield f"{link} (no such heading)"


def test_links_lead_somewhere(project_root: Path) -> None:
    broken = [
        f"{page.relative_to(project_root)}: {link}" for page in list_pages(project_root) for link in _find_broken(page)
    ]
    assert not broken, "\n".join(broken)


def test_what_is_no_link_and_what_is_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One → two\n`[a](b)` [c](#one--two) [d](page.md#three) [e](gone.md) [f](https://example.org)\n")
    assert list(_find_broken(page)) == ["page.md#three (no such heading)", "gone.md"]
