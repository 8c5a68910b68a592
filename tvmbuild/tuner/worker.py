"""What the tuner's builders do: compile one candidate."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ziglang


def build_candidate(mod: Any, target: Any, library: str, threads: str) -> str:
    """Compile one scheduled module into the shared library at that path; return the path.

    ``threads`` is the object file of the thread pool that packages have.
    """
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415  (after start_worker)

    return build_library(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target, library, threads)


def build_library(mod: Any, target: Any, library: str, threads: str) -> str:
    """Compile a module as it is into the shared library at that path; return the path.

    lld links for every machine alike, in 0.03 s.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.fast_math import use_fast_math  # noqa: PLC0415

    use_fast_math()

    def link(output: str, objects: list[str], **_options: Any) -> None:
        zig = Path(ziglang.__file__).parent / "zig"
        subprocess.run(
            [str(zig), "ld.lld", "-shared", "-o", output, *objects, threads], check=True, capture_output=True
        )

    link.output_format = "so"  # type: ignore[attr-defined]  # export_library asks for it
    tvm.driver.build(mod, target=target).export_library(library, fcompile=link)
    return library
