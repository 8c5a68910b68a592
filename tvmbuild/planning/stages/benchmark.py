"""The planning of the stage that checks a cell's outputs and measures its latency."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import BenchmarkStep, Step
from tvmbuild.base.wording import count
from tvmbuild.planning.device_use import explain_device
from tvmbuild.planning.stages.planner import StageOfCells
from tvmbuild.planning.stages.samples import list_judging_files
from tvmbuild.planning.stages.threads import list_thread_variables
from tvmbuild.planning.stages.tools import list_code_generator, list_tvm, list_versions
from tvmbuild.planning.subject import Subject


class Benchmark(StageOfCells):
    """The planner of the benchmark stage, which uses the target's device and builds nothing except a baseline."""

    about = "check numbers and measure latency of every package"

    def make_options(self, subject: Subject, _capabilities: Capabilities) -> BenchmarkStep:
        """Return the options of timing, and the tolerances of the package's outputs."""
        target = subject.require_target()
        return BenchmarkStep(
            target=target.name,
            kind=target.kind,
            device=target.device,
            threads=_count_threads(target),
            tolerance=subject.model.tolerance_in(target.precision),
            benchmark=target.benchmark,
            accuracy=subject.model.accuracy,
            measured_on=target.measured_on,
        )

    def list_more_inputs(self, subject: Subject, root: Path, _options: BenchmarkStep) -> dict[str, Path]:
        """Return role → file for the real inputs that judge the accuracy."""
        return list_judging_files(subject, root)

    def list_tools(self, subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of TVM and of the baselines' libraries."""
        asked = set(subject.require_target().benchmark.baselines)
        if subject.model.accuracy:
            asked.add("onnxruntime")
        tools = {
            **list_tvm(capabilities),
            **list_versions(capabilities, *(name for name in ("onnxruntime", "openvino") if name in asked)),
        }
        if "tvm-untuned" in asked:  # compiled by the benchmark itself, linked as `auto`
            tools |= {**list_code_generator(capabilities), **list_versions(capabilities, "ziglang")}
        return tools

    def list_environment(self, subject: Subject) -> dict[str, str]:
        """Return the variable for the number of threads with which packages are timed."""
        target = subject.require_target()
        return list_thread_variables(target, _count_threads(target))

    def explain(self, target: TargetSpec, capabilities: Capabilities) -> str | None:
        """Return why the device is unavailable or this machine has too few cores, or None if the stage can run."""
        reason = explain_device(target.kind, target.cpu, target.device, capabilities)
        threads = target.benchmark.threads or 0
        if reason is None and target.device.kind == "local" and threads > capabilities.cores > 0:
            may = count(capabilities.cores, "core")
            return f"`benchmark:` asks for {threads} threads and this process may use {may}; say `threads: …` there"
        return reason

    def describe(self, step: Step[BenchmarkStep]) -> str:
        """Return the purpose of the step, which names the cell."""
        return f"check and time {step.subject}"


def _count_threads(target: TargetSpec) -> int:
    return target.benchmark.threads or target.num_cores
