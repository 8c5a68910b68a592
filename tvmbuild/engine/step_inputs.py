"""All files that a step reads: its declared inputs, and the files that only these inputs name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tvmbuild.base.external_data import locate_external
from tvmbuild.base.steps import METRIC, AnyStep
from tvmbuild.engine.external_data import list_external_data

EXTERNAL = "external data "
"""The prefix of the role of a file that the source names. The path relative to the source's folder follows."""
IMPORTED = "imported "
"""The prefix of the role of a project file that the script of an export or a metric imports. The path relative to the
script's folder follows.
"""


def locate_inputs(step: AnyStep) -> dict[str, Path]:
    """Return role → file for all files that the step reads, including external weights and modules of its script.

    Raises TvmbuildError if the source names an impossible external file, OSError if the source cannot be read.
    """
    inputs = dict(step.inputs)
    source, script = inputs.get("source"), _find_script(step)
    if source is not None:
        return inputs | {EXTERNAL + name: locate_external(source, name) for name in list_external_data(source)}
    if script is not None:
        return inputs | {IMPORTED + str(path.relative_to(script.parent)): path for path in list_local_imports(script)}
    return inputs


def locate_known(step: AnyStep, known: Iterable[str]) -> dict[str, Path]:
    """Return role → file for the declared inputs and for the ``known`` roles, without reading the source or the script.

    This is enough to compare files, because a new role requires a changed source.
    """
    found, source, script = dict(step.inputs), step.inputs.get("source"), _find_script(step)
    for role in known:
        if role.startswith(EXTERNAL) and source is not None:
            found[role] = locate_external(source, role.removeprefix(EXTERNAL))
        elif role.startswith(IMPORTED) and script is not None:
            found[role] = script.parent / role.removeprefix(IMPORTED)
    return found


def _find_script(step: AnyStep) -> Path | None:
    """Return the file with the user's code that the step runs: an export or a metric."""
    return step.inputs.get("export") or step.inputs.get(METRIC)


# The project's own Python files that a script imports, found without running it, for planning.


def list_local_imports(script: Path) -> list[Path]:
    """Return the files in or below the script's folder that it imports, directly or through each other, sorted.

    Only `import` statements count. A file that is not valid Python imports nothing. Running it will give the error.
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
    """Yield the modules that the file may import, as dotted names relative to the script's folder."""
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
    """Yield the files that importing the module runs, including the `__init__.py` of its packages."""
    here = folder
    for part in name.split("."):
        here /= part
        if not part.isidentifier():
            return
        for file in (here.with_name(f"{part}.py"), here / "__init__.py"):
            if file.is_file():
                yield file
