"""The CUDA source of a scheduled function."""

from __future__ import annotations

import tvm

from tvmbuild.compiler.codegen.cubin import find_source
from tvmbuild.compiler.codegen.generators import pass_config


def write_source(mod: tvm.IRModule, target: tvm.target.Target) -> str:
    """Return the source as packages make it, without a GPU or a CUDA compiler."""
    with tvm.transform.PassContext(config=pass_config(target)):
        built = tvm.tirx.build(mod, target=target)
    source = find_source(built.mod if hasattr(built, "mod") else built)
    assert source is not None
    return source
