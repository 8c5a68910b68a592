"""Packages of small models, compiled in a separate process, so that the test's own may hold TVM's runtime only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from made_once import make_once

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.archive import read_package, write_package

TAR_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""The arguments of `extractall`: Debian 12's Python has no filters, later ones warn if none is named."""
ANY_X86: Attributes = FrozenMap({"mcpu": "x86-64", "num-cores": 2})


def build_package(
    model: Path,
    folder: Path,
    attributes: Attributes = ANY_X86,
    kind: str = "llvm",
    host: Attributes = FrozenMap(),
    **options: Any,
) -> Path:
    """Compile the ONNX file without records, equal packages once; return the package, `net.tar` in ``folder``.

    ``options`` are further ones of BuildOptions.
    """
    key = ("package", sha256_file(model), attributes, kind, host, options)
    made = make_once(key, lambda empty: compile_package(model, empty, attributes, kind, host, **options))
    return Path(shutil.copy(made / "net.tar", folder))


def compile_package(
    model: Path,
    folder: Path,
    attributes: Attributes = ANY_X86,
    kind: str = "llvm",
    host: Attributes = FrozenMap(),
    **options: Any,
) -> Path:
    """Compile the package as `build_package` does, even if it was built before."""
    folder.chmod(0o700)
    program = f"""
from pathlib import Path
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.base.frame_specs import *
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import *
from tvmbuild.base.specs import Preprocess
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
target = PackageTarget("here", {kind!r}, {attributes!r}, {host!r})
package = build_package(Path({str(model)!r}), target, options=BuildOptions("net", **{options!r}))
write_package(Path({str(folder / "net.tar")!r}), package)
"""
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder), TVM_NUM_THREADS="2")
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True, timeout=300)
    return folder / "net.tar"


def change_package(package: Path, path: Path, **changes: Any) -> Path:
    """Write the package to ``path`` with changes in its mod.json."""
    old = read_package(package)
    write_package(path, replace(old, info=replace(old.info, **changes)))
    return path
