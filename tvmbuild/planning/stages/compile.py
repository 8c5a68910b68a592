"""The planning of the stage that builds a cell's package."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import CompileStep, Step
from tvmbuild.planning.stages.planner import StageOfCells
from tvmbuild.planning.stages.threads import list_thread_variables
from tvmbuild.planning.stages.tools import ABSENT, list_code_generator, list_versions
from tvmbuild.planning.subject import Subject
from tvmbuild.targets.table import target_kind


class Compile(StageOfCells):
    """The planner of the compile stage, which uses the whole tool chain and no device."""

    about = "build the package of every model for every target"

    def make_options(self, subject: Subject, _capabilities: Capabilities) -> CompileStep:
        """Return the options that change a package's bytes."""
        target = subject.require_target()
        return CompileStep(
            model=subject.model.name,
            target=target.name,
            kind=target.kind,
            attributes=target.attributes,
            host=target.host,
            link=target.link,
            glibc=target.glibc,
            preprocess=subject.model.preprocess,
            precision=target.precision,
            frames=subject.model.frames,
            postprocess=subject.model.postprocess,
            sizes=subject.model.sizes,
            memory=target.memory,
        )

    def list_more_inputs(self, _subject: Subject, _root: Path, _options: CompileStep) -> dict[str, Path]:
        """Return an empty dict, because the stage reads no further files."""
        return {}

    def list_tools(self, subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of the code generator, the linker and the compilers of kernels."""
        target = subject.require_target()
        return {
            **list_code_generator(capabilities),
            **_list_linker(target.link, capabilities),
            **target_kind(target.kind).list_tools(target.attributes, capabilities),
        }

    def list_environment(self, subject: Subject) -> dict[str, str]:
        """Return the variable for the target's number of threads."""
        target = subject.require_target()
        return list_thread_variables(target, target.num_cores)

    def explain(self, target: TargetSpec, capabilities: Capabilities) -> str | None:
        """Return the reason why a part of the tool chain is missing, or None if it is complete."""
        kind = target_kind(target.kind)
        return (
            kind.explain_codegen(capabilities)
            or kind.explain_compiler(target.attributes, capabilities)
            or _explain_linker(target.link, capabilities)
        )

    def describe(self, step: Step[CompileStep]) -> str:
        """Return the purpose of the step, which names the model, the target and its hardware."""
        hardware = target_kind(step.options.kind).describe(step.options.attributes)
        return f"build the package of {step.model} for {step.options.target} ({hardware})"


def _list_linker(link: str, capabilities: Capabilities) -> dict[str, str]:
    if link == "auto":
        return list_versions(capabilities, "ziglang")
    return {link: capabilities.linkers.get(link, ABSENT)}


def _explain_linker(link: str, capabilities: Capabilities) -> str | None:
    if link == "auto":
        if capabilities.version("ziglang") is None:
            return "the linker is missing; `pip install ziglang`"
        return None
    if link in capabilities.linkers:
        return None
    return f"the compiler `{link}` is not on PATH; install it, or say `link: auto` for the bundled one"
