"""The interface of every kind of target, with one class for each caller. `targets/table.py` lists the kinds.

A kind need not implement a method with a default. The methods for the cluster are in `cluster/kinds.py`. Neither this
module nor a kind's module may import TVM before a function is called, because the planner imports them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.specs import TargetSpec

Mistake = tuple[str, str, str]
"""A mistake in a target: (key, fault, expected value)."""
Problem = tuple[str, str]
"""A fault of a value: (fault, expected value)."""
HasFunction = Callable[[str], bool]
"""A function that returns whether this TVM has a function of a given name."""


class Named(ABC):
    """The members that every caller uses."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kind in targets.yaml and in TVM."""

    @property
    @abstractmethod
    def on_gpu(self) -> bool:
        """Return whether kernels run on a GPU. The CPU's attributes are then those of the target's host."""


class Configured(Named):
    """The members that the configuration uses."""

    pinned: ClassVar[tuple[str, ...]] = ()
    """The attributes that a target must state.

    Without them TVM guesses from the machine that builds, or fails on most models.
    """
    families: ClassVar[Mapping[str, Mapping[str, AttributeValue]]] = {}
    """The attributes of each value of `family:`. It is empty if the kind has no families."""

    def find_mistakes(self, _data: Mapping[str, Any], /) -> list[Mistake]:
        """Return a mistake for each impossible attribute in a target's ``data``.

        The values in ``data`` have the right types, and its family is known.
        """
        return []

    @abstractmethod
    def explain_precision(self, precision: str, attributes: Attributes, /) -> Problem | None:
        """Return the fault of a precision (other than fp32) and the expected value, or None if it is supported."""


class Planned(Named):
    """The members that the planner uses."""

    needs_records: ClassVar[bool] = True
    """True if `strict=1` requires a record of each Task. Tasks of GPUs have good schedules by rule, or by DLight."""
    rules: ClassVar[int] = 1
    """The version of its rules in `compiler/schedules`. Raise it by one whenever a rule makes another schedule."""

    def list_tools(self, _attributes: Attributes, _capabilities: Capabilities, /) -> dict[str, str]:
        """Return the version, or `absent`, of each compiler besides TVM for a target with these attributes."""
        return {}

    def explain_codegen(self, capabilities: Capabilities, /) -> str | None:
        """Return why no code can be generated here, with the remedy, or None if it can be generated."""
        if self.name in capabilities.codegens:
            return None
        return f"the installed TVM generates no {self.name} code; install a TVM built with it (see `tvmbuild doctor`)"

    def explain_compiler(self, _attributes: Attributes, _capabilities: Capabilities, /) -> str | None:
        """Return why generated code cannot be compiled here, with the remedy, or None if it can, or if TVM does it."""
        return None

    @abstractmethod
    def explain_here(self, cpu: Attributes, capabilities: Capabilities, /) -> str | None:
        """Return why this machine does not run the kind's packages, with the remedy, or None if it does.

        ``cpu`` are the attributes of the CPU that runs the code, or the host code.
        """

    def find_stand_in(self, _capabilities: Capabilities, /) -> str | None:
        """Return the name of this machine's device if it can run the packages of every device of the kind.

        Otherwise return None, for example because code is made for one architecture.
        """
        return None

    def describe(self, _attributes: Attributes, /) -> str:
        """Return the hardware in two words: `cuda sm_90`."""
        return self.name


class Tuned(Named):
    """The members that the tuner uses."""

    always_builds: ClassVar[bool] = False
    """True if TVM can normally build every candidate, so that a batch without a build is this machine's fault."""
    frees_cores: ClassVar[bool] = False
    """True if timing a candidate needs none of this machine's cores."""

    @abstractmethod
    def find_device_class(self) -> str:
        """Return the class of this machine's device: LLVM's name of the CPU, `znver4`, or the GPU's name, `h200`."""


class Run(Named):
    """The members for running the kind's packages on this machine."""

    def identify(self) -> dict[str, str] | None:
        """Return facts about the hardware besides the CPU that affect latency, or None if they are not known.

        If they are not known, the step cache does not share the times that were measured here.
        """
        return None

    def describe_here(self, _target: TargetSpec, /) -> str:
        """Return the part of this machine that runs the target's packages, for the doctor."""
        return f"this machine's {self.name} device"


class Probed(Named):
    """The members that the probe uses, which runs in its own process and imports TVM."""

    def prepare(self) -> None:
        """Load the packages' runtime before `import tvm`, if the import would load another one."""

    def has_codegen(self, has: HasFunction, /) -> bool:
        """Return whether this installation can generate code for the kind."""
        return has(f"target.build.{self.name}")

    def has_runtime(self, has: HasFunction, /) -> bool:
        """Return whether this installation has a runtime for the kind's code, with or without a device."""
        return has(f"device_api.{self.name}")

    def answers(self) -> bool:
        """Return whether the first device answers. It is called only if `has_runtime`."""
        import tvm  # noqa: PLC0415 - planning asks this module too

        return bool(tvm.device(self.name, 0).exist)

    def probe(self, found: Capabilities, /) -> Capabilities:
        """Return the capabilities ``found`` with the additions of this kind."""
        return found


class Diagnosed(Named):
    """The members that `tvmbuild doctor` uses."""

    def explain_absence(self, _capabilities: Capabilities, /) -> str | None:
        """Return why a device did not answer when it was asked for its attributes, or None if nothing is known."""
        return None

    @abstractmethod
    def check(self, capabilities: Capabilities, /) -> Finding:
        """Return the doctor's finding about the kind."""


class TargetKind(Configured, Planned, Tuned, Run, Probed, Diagnosed):
    """A kind of target: one of TVM's code generators, and the hardware that runs its code."""
