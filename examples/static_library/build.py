"""The compilation of a built cell to object files that a program links: python build.py build/cells/NAME@TARGET FOLDER.

FOLDER gets the objects and `linked_model.h`, which names them to tvmbuild's C++ library. They are made of the cell's
model and its schedule.json, whose records are the package's, and have the package's metadata.
"""  # noqa: INP001 - a script

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmbuild.base.files import pretty_json, sha256_file
from tvmbuild.building.package import check_coverage
from tvmbuild.building.scheduling import schedule_model
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.entries import add_entries
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.records.schedule import read_schedule

PREFIX = "linked_"


def find_inputs(cell: Path, info: PackageInfo) -> tuple[Path, Path]:
    """Return the model and the schedule that the cell's package was built from, by their digests."""
    models = cell.parent.parent / "models" / info.model
    candidates = {"model": models.rglob("*.onnx"), "schedule": cell.rglob("schedule.json")}
    found: dict[str, Path] = {}
    for role, paths in candidates.items():
        for path in paths:
            if sha256_file(path) == info.digests.get(role):
                found[role] = path
        if role not in found:
            raise TvmbuildError(f"the {role} of the package in {cell} is not in {cell.parent.parent}", "run doit again")
    return found["model"], found["schedule"]


def build(cell: Path, folder: Path) -> None:
    """Write the objects and the header. The weights stay in the code."""
    package = cell / f"{cell.name.replace('@', '-')}.tar"
    if not package.is_file():
        raise TvmbuildError(f"{package} is not there", f"run `doit compile:{cell.name}`")
    info = read_metadata(package)
    if info.target.kind != "llvm" or info.sizes is not None:
        raise TvmbuildError(f"{cell.name} is for a GPU or has several sizes", "only a CPU's package of one size links")
    model, schedule_file = find_inputs(cell, info)
    schedule = read_schedule(schedule_file)
    scheduled = schedule_model(model, info.target, schedule, info.model)
    check_coverage(scheduled.coverage, schedule, cell.name)
    interface = Interface(info.model, scheduled.lowered.inputs, scheduled.lowered.outputs)
    entries = EntryOptions(info.preprocess, info.frames, info.postprocess)
    mod = add_entries(scheduled.mod, interface, entries, on_gpu=False)
    executable = build_executable(mod.with_attr("system_lib_prefix", PREFIX), scheduled.target)
    folder.mkdir(parents=True, exist_ok=True)

    def keep(output: str, objects: list[str], **_: Any) -> None:
        for path in map(Path, objects):
            if path.parent != folder:
                shutil.copy(path, folder)
        Path(output).unlink(missing_ok=True)

    keep.output_format = "a"  # type: ignore[attr-defined]
    executable.export_library(str(folder / "objects.a"), fcompile=keep, workspace_dir=str(folder))
    text = pretty_json(replace(info, params="embedded").to_json())
    # A compiler refuses a string literal that is too long.
    lines = "\n".join(f'R"json({line}\n)json"' for line in text.splitlines())
    header = f'#include <tvmbuild.hpp>\n\nstatic const tvmbuild::LinkedModel kLinkedModel = {{"{PREFIX}", {lines}}};\n'
    (folder / "linked_model.h").write_text(header, encoding="utf-8")
    coverage = info.coverage
    print(f"{cell.name}: {coverage.covered} of {coverage.tasks} tasks have records")


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    except TvmbuildError as error:
        sys.exit(f"error: {error}")
