"""The project's own Python files that a script imports, found without running it, so that planning can look."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def list_local_imports(script: Path) -> list[Path]:
    """Return the files in the script's folder, or below it, that it imports, directly or through one another; sorted.

    Only `import` statements are seen. A file that is no Python names none: whoever runs it says why.
    """
    folder, found, waiting = script.parent, set[Path](), [script]
    while waiting:
        path = waiting.pop()
        for name in _list_names(path, folder):
            new = [file for file in _find_files(folder, name) if file != script and file not in found]
            found.update(new)
            waiting += new
    return sorted(found)


def _list_names(path: Path, folder: Path) -> Iterator[str]:
    """Yield the modules that the file may mean, as dotted names from the script's folder."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, OSError):
        return
    package = path.parent.relative_to(folder).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            for alias in node.names:  # a name in the module, or a module in the package
                yield f"{module}.{alias.name}" if module else alias.name


def _find_files(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files that importing the module runs: its packages' too."""
    here = folder
    for part in name.split("."):
        here /= part
        if not part.isidentifier():
            return
        for file in (here.with_name(f"{part}.py"), here / "__init__.py"):
            if file.is_file():
                yield file
