"""The compilation of a model to object files that a program links: python build.py MODEL.onnx MCPU FOLDER.

FOLDER gets the objects and `linked_model.h`, which names them to tvmbuild's C++ library.
"""  # noqa: INP001 - a script

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import pretty_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.scheduling import schedule_model
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget

PREFIX = "linked_"


def build(model: Path, mcpu: str, folder: Path) -> None:
    """Write the objects and the header; the weights stay in the code, and its schedules are tvmbuild's rules."""
    attributes: Attributes = FrozenMap({"mcpu": mcpu, "mtriple": f"{platform.machine()}-linux-gnu", "num-cores": 1})
    target = PackageTarget("linked", "llvm", attributes)
    scheduled = schedule_model(model, target)
    executable = build_executable(scheduled.mod.with_attr("system_lib_prefix", PREFIX), scheduled.target)
    folder.mkdir(parents=True, exist_ok=True)

    def keep(output: str, objects: list[str], **_: Any) -> None:
        for path in map(Path, objects):
            if path.parent != folder:
                shutil.copy(path, folder)
        Path(output).unlink(missing_ok=True)

    keep.output_format = "a"  # type: ignore[attr-defined]
    executable.export_library(str(folder / "objects.a"), fcompile=keep, workspace_dir=str(folder))
    info = PackageInfo(
        model=model.stem,
        target=target,
        inputs=scheduled.lowered.inputs,
        outputs=scheduled.lowered.outputs,
        params="embedded",
        coverage=PackageCoverage(scheduled.coverage.tasks, len(scheduled.coverage.covered)),
        layout=scheduled.lowered.layout,
    )
    text = pretty_json(info.to_json())
    value = f'{{"{PREFIX}", R"json({text})json"}}'
    header = f"#include <tvmbuild.hpp>\n\nstatic const tvmbuild::LinkedModel kLinkedModel = {value};\n"
    (folder / "linked_model.h").write_text(header, encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).resolve())
