"""The pages of docs/ as the site shows them."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def render_page(root: Path, name: str) -> str:
    """Return a page's Markdown, with the parts that the hooks of mkdocs write."""
    spec = spec_from_file_location("site_hooks", root / "docs/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks: Any = module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
    return str(hooks.on_page_markdown((root / "docs" / name).read_text(encoding="utf-8"), page))
