"""All files that a step reads: its declared inputs, and what only these name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tvmbuild.base.external_data import locate_external
from tvmbuild.base.steps import AnyStep
from tvmbuild.engine.external_data import list_external_data
from tvmbuild.engine.python_imports import list_local_imports

EXTERNAL = "external data "
"""Role, before its path beside the source, of a file that the source names."""
IMPORTED = "imported "
"""Role, before its path beside the export's script, of a file of the project that the script imports."""


def locate_inputs(step: AnyStep) -> dict[str, Path]:
    """Return role → file, those too that only the source names: weights beside it, modules that its script imports."""
    inputs = dict(step.inputs)
    source, script = inputs.get("source"), inputs.get("export")
    if source is not None:
        return inputs | {EXTERNAL + name: locate_external(source, name) for name in list_external_data(source)}
    if script is not None:
        return inputs | {IMPORTED + str(path.relative_to(script.parent)): path for path in list_local_imports(script)}
    return inputs


def locate_known(step: AnyStep, known: Iterable[str]) -> dict[str, Path]:
    """Return the inputs, and the ``known`` roles that only the source names; a new one needs a change of the source."""
    found, source, script = dict(step.inputs), step.inputs.get("source"), step.inputs.get("export")
    for role in known:
        if role.startswith(EXTERNAL) and source is not None:
            found[role] = locate_external(source, role.removeprefix(EXTERNAL))
        elif role.startswith(IMPORTED) and script is not None:
            found[role] = script.parent / role.removeprefix(IMPORTED)
    return found
