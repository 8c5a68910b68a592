"""The stage that searches a cell's schedules."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.devices.table import device_kind
from tvmbuild.planning.stages.planner import StageOfCells
from tvmbuild.planning.stages.threads import list_thread_variables
from tvmbuild.planning.stages.tools import list_code_generator
from tvmbuild.planning.subject import Subject
from tvmbuild.targets.table import target_kind


class Tune(StageOfCells):
    """The tune stage: it times candidates if the target's device can be asked; otherwise it elects from the records."""

    about = "search schedules for every model on every target"

    def make_options(self, subject: Subject, capabilities: Capabilities) -> TuneStep:
        """Return the options that change records."""
        target = subject.require_target()
        on_cpu_here = isinstance(target.device, LocalDevice) and not target_kind(target.kind).on_gpu
        return TuneStep(
            target=target.name,
            kind=target.kind,
            attributes=target.attributes,
            host=target.host,
            measured_on=target.measured_on,
            device=target.device,
            tune=target.tune,
            precision=target.precision,
            threads=target.num_cores,
            needs_records=target_kind(target.kind).needs_records,
            rules=target_kind(target.kind).rules,
            timed_on=capabilities.host_cpu if on_cpu_here else target.measured_on,
        )

    def list_more_inputs(self, _subject: Subject, _root: Path, _options: TuneStep) -> dict[str, Path]:
        """Return an empty mapping."""
        return {}

    def list_tools(self, _subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return the tools that build candidates."""
        return list_code_generator(capabilities)

    def list_environment(self, subject: Subject) -> dict[str, str]:
        """Return the number of threads of candidates."""
        target = subject.require_target()
        threads = list_thread_variables(target, target.num_cores)
        # The cost model's threads must not spin on the cores that time candidates.
        return {"OMP_WAIT_POLICY": "passive", **threads} if threads else {}

    def explain(self, target: TargetSpec, capabilities: Capabilities) -> str | None:
        """Require the code generator alone: without a device nothing is searched."""
        return target_kind(target.kind).explain_codegen(capabilities)

    def describe(self, step: Step[TuneStep]) -> str:
        """Name the model, the target, and the place where candidates are timed."""
        device = step.options.device
        timing = device_kind(device).describe_timing(device)
        return f"search schedules of {step.model} for {step.options.target}{timing}"
