"""The files, folders, modules and functions of our own tree that pages name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pages import list_pages

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tvmbuild"
BASES = (ROOT, PACKAGE, PACKAGE / "compiler")
"""The folders that paths in pages start from."""
TREES = ("tvmbuild", "tests", "benchmarks", "docs", "examples")
"""The root's folders whose files a page may name without their folders."""
PAST = re.compile(r"CHANGELOG\.md|docs/notebook/.*")
"""The pages that tell of files as they were."""
PAGES = [name for page in list_pages(ROOT) if not PAST.fullmatch(name := page.relative_to(ROOT).as_posix())]
NOT_OURS = {
    "devices/shelf/__init__.py",  # a reader adds these four
    "devices/shelf/kind.py",
    "devices/shelf/device.py",
    "targets/metal.py",
    *("cuda_fp16.h", "mma.h"),  # CUDA's
    "data.py",  # Polygraphy's
    *("llvm.prefetch", "llvm.lrint", "mma.sync"),  # instructions
}
SUFFIXES = ("json", "jsonl", "yaml", "npz", "onnx", "py", "md", "html", "gz")
"""The endings by which a word with a dot is a file and not a member of a module."""


def _list_names(text: str) -> Iterator[str]:
    """Yield the words in back-ticks that may name a place of our tree; placeholders such as NAME and `<key>` do not."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    words = (word for code in re.findall(r"`([^`\n]+)`", prose) for word in code.split())
    yield from (word for word in words if not re.search(r"[A-Z]{4}|[<:=(…]|\b\d{3}-|\.yaml$", word))


@cache
def _list_folders() -> frozenset[str]:
    folders = {path.name for base in BASES for path in base.iterdir() if path.is_dir()}
    ours = {name for name in folders if not name.startswith((".", "_"))} | {".ci"}
    return frozenset(ours - {"models", "records", "build"})


@cache
def _list_files() -> frozenset[str]:
    found = [path for tree in TREES for path in (ROOT / tree).rglob("*.*")]
    return frozenset(path.name for path in [*found, *ROOT.glob("*.*")])


@cache
def _read_modules() -> dict[str, str]:
    """Return the code of all modules of each name."""
    code: dict[str, str] = {}
    for path in PACKAGE.rglob("*.py"):
        code[path.stem] = code.get(path.stem, "") + path.read_text(encoding="utf-8")
    return code


def _find_missing(text: str) -> Iterator[str]:
    """Yield the names of a page that lead to no file, no folder and no member of a module."""
    for name in _list_names(text):
        if name in NOT_OURS:
            continue
        if "/" in name:
            if name.split("/")[0] in _list_folders() and not any(list(base.glob(name.rstrip("/"))) for base in BASES):
                yield name
        elif re.fullmatch(r"[\w*-]+\.(?:py|cpp|hpp|h|c|sh)", name):
            if name not in _list_files():
                yield name
        elif member := re.fullmatch(r"([a-z_]+)\.([A-Za-z_]+)", name):
            module, each = member.groups()
            code = _read_modules().get(module)
            if code and each not in SUFFIXES and module not in _list_folders() and not _defines(code, each):
                yield name


def _defines(code: str, name: str) -> bool:
    return bool(re.search(rf"(?:def|class) {name}\b|^ *(?:self\.)?{name}\b *[:=]", code, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_files_folders_and_members_exist(page: str) -> None:
    assert list(_find_missing((ROOT / page).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", PAGES)
def test_functions_exist(page: str) -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    rooms |= {path.name for path in (PACKAGE / "compiler").iterdir() if path.is_dir()}
    for name in _list_names((ROOT / page).read_text(encoding="utf-8")):
        parts = name.split(".")
        if parts[0] not in rooms or "/" in name or len(parts) < 2 or not all(parts) or parts[-1] in SUFFIXES:
            continue
        inside = PACKAGE / "compiler" if not (PACKAGE / parts[0]).is_dir() else PACKAGE
        cut = next((i for i in range(len(parts), 0, -1) if inside.joinpath(*parts[:i]).with_suffix(".py").is_file()), 0)
        assert cut or inside.joinpath(*parts).is_dir(), f"{page}: there is no module of {name}"
        code = inside.joinpath(*parts[:cut]).with_suffix(".py").read_text(encoding="utf-8") if cut else ""
        for each in parts[cut:]:
            assert re.search(rf"(def|class) {each}\b", code), f"{page}: {name}: there is no {each}"


def test_what_is_missing_is_found() -> None:
    gone = ["tvmbuild/compiler/fallback*.py", "rewrite.constant", "gone.cpp", "tests/gone/"]
    there = ["compiler/pipeline.py", "pool.c", "expressions.constant", "cli/NAME.py", "records/<target>/a.json"]
    assert list(_find_missing(" ".join(f"`{name}`" for name in (*gone, *there, "mod.json")))) == gone
