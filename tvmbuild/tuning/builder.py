"""What the tuner's builders do: compile one candidate."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any


def build_candidate(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile one scheduled module into the shared library at that path; return the path.

    ``threads`` is the object file of the thread pool that packages have; None: nothing runs on the CPU.
    """
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes  # noqa: PLC0415

    removed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return build_library(run_tir_passes(removed, target), target, library, threads)


def build_library(mod: Any, target: Any, library: str, threads: str | None) -> str:
    """Compile a module as it is into the shared library at that path; return the path.

    lld links for every machine alike, in 0.03 s.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.codegen.generators import pass_config, use_generators  # noqa: PLC0415

    def link(output: str, objects: list[str], **_options: Any) -> None:
        added = () if threads is None else (threads,)
        subprocess.run([*_linker(), "-shared", "-o", output, *objects, *added], check=True, capture_output=True)

    link.output_format = "so"  # type: ignore[attr-defined]  # export_library asks for it
    with use_generators(target), tvm.transform.PassContext(config=pass_config(target)):
        tvm.driver.build(mod, target=target).export_library(library, fcompile=link)
    return library


def _linker() -> list[str]:
    """Return the bundled lld; where a tuning bundle came without ziglang, this machine's own linker does."""
    spec = importlib.util.find_spec("ziglang")
    return ["ld"] if spec is None or spec.origin is None else [str(Path(spec.origin).parent / "zig"), "ld.lld"]
