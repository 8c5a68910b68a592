"""The planning of the stage that searches a cell's schedules."""

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
    """The planner of the tune stage.

    The stage times candidates if the target's device is available. Otherwise it only elects from the records.
    """

    about = "search schedules for every model on every target"

    def make_options(self, subject: Subject, capabilities: Capabilities) -> TuneStep:
        """Return the options that can change records."""
        target, model = subject.require_target(), subject.model
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
            preprocess=model.preprocess,
            frames=model.frames,
            postprocess=model.postprocess,
            labels=model.labels,
        )

    def list_more_inputs(self, _subject: Subject, _root: Path, _options: TuneStep) -> dict[str, Path]:
        """Return an empty dict, because the stage reads no further declared files."""
        return {}

    def list_tools(self, _subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of the tools that build candidates."""
        return list_code_generator(capabilities)

    def list_environment(self, subject: Subject) -> dict[str, str]:
        """Return the variables for the threads of candidates and of the cost model."""
        target = subject.require_target()
        threads = list_thread_variables(target, target.num_cores)
        # The cost model's threads must not spin on the cores that time candidates.
        return {"OMP_WAIT_POLICY": "passive", **threads} if threads else {}

    def explain(self, target: TargetSpec, capabilities: Capabilities) -> str | None:
        """Return why no code can be generated, or None if it can. A device is not required.

        Without a device nothing is searched.
        """
        return target_kind(target.kind).explain_codegen(capabilities)

    def describe(self, step: Step[TuneStep]) -> str:
        """Return the purpose of the step, which names the model, the target and the place of timing."""
        device = step.options.device
        timing = device_kind(device).describe_timing(device)
        return f"search schedules of {step.model} for {step.options.target}{timing}"
