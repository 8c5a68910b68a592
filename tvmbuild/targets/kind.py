"""The interface of every kind of target, one class for each caller. `targets/table.py` lists the kinds.

A method with a default need not be implemented. The cluster's questions are in `cluster/kinds.py`.
Neither this module nor a kind's module imports TVM until a function is called: the planner imports them too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.specs import Attributes, AttributeValue, TargetSpec

Mistake = tuple[str, str, str]
"""(key, fault, expected value)."""
Problem = tuple[str, str]
"""(fault, expected value)."""
HasFunction = Callable[[str], bool]
"""A predicate whether this TVM has a function of that name."""


class Named(ABC):
    """The questions of every caller."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in targets.yaml and in TVM."""

    @property
    @abstractmethod
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU: its CPU's attributes are then the host's."""


class Configured(Named):
    """The questions of the configuration."""

    pinned: ClassVar[tuple[str, ...]] = ()
    """The required attributes: without them TVM guesses from the machine that builds, or fails on most models."""
    families: ClassVar[Mapping[str, Mapping[str, AttributeValue]]] = {}
    """The attributes of each `family:`. Empty: the kind has no families."""

    def find_mistakes(self, _data: Mapping[str, Any], /) -> list[Mistake]:
        """Return the impossible attributes. The values in ``data`` have the right types, and its family is known."""
        return []

    @abstractmethod
    def explain_precision(self, precision: str, attributes: Attributes, /) -> Problem | None:
        """Return the fault of a `precision` other than fp32. None: the hardware supports it."""


class Planned(Named):
    """The questions of the planner."""

    needs_records: ClassVar[bool] = True
    """Whether a Task without a record is badly off. Tasks of GPUs are scheduled by rule, or by DLight."""
    rules: ClassVar[int] = 1
    """The version of its `compiler/schedules`. Raise it by one whenever a rule makes another schedule."""

    def list_tools(self, _capabilities: Capabilities, /) -> dict[str, str]:
        """Return name → version of its compilers besides TVM, including `absent` ones: in the fingerprint."""
        return {}

    def explain_codegen(self, capabilities: Capabilities, /) -> str | None:
        """Return why no code can be generated here, with the remedy. None: it can."""
        if self.name in capabilities.codegens:
            return None
        return f"the installed TVM generates no {self.name} code; install a TVM built with it (see `tvmbuild doctor`)"

    def explain_compiler(self, _capabilities: Capabilities, /) -> str | None:
        """Return why generated code cannot be compiled here, with the remedy. None: it can, or TVM does it."""
        return None

    @abstractmethod
    def explain_here(self, cpu: Attributes, capabilities: Capabilities, /) -> str | None:
        """Return why this machine does not run its packages, with the remedy. None: it does."""

    def find_stand_in(self, _capabilities: Capabilities, /) -> str | None:
        """Return this machine's device if it runs the packages of every device of the kind.

        None: there is none, for example because code is made for one architecture.
        """
        return None

    def describe(self, _attributes: Attributes, /) -> str:
        """Return the hardware in two words: `cuda sm_90`."""
        return self.name


class Tuned(Named):
    """The questions of the tuner."""

    always_builds: ClassVar[bool] = False
    """Whether TVM lowers each candidate, so that a batch in which no build succeeds is this machine's fault."""
    frees_cores: ClassVar[bool] = False
    """Whether timing a candidate takes none of this machine's cores."""

    @abstractmethod
    def find_device_class(self) -> str:
        """Return the class of this machine's device: LLVM's name of the CPU, `znver4`, or the GPU's name, `h200`."""


class Run(Named):
    """The questions of callers that run its packages on this machine."""

    def identify(self) -> dict[str, str] | None:
        """Identify the hardware besides the CPU that affects latency. None: it is not known, and no time is shared."""
        return None

    def describe_here(self, _target: TargetSpec, /) -> str:
        """Return the part of this machine on which its packages run, for the doctor."""
        return f"this machine's {self.name} device"


class Probed(Named):
    """The questions of the probe, in its own process, which imports TVM."""

    def has_codegen(self, has: HasFunction, /) -> bool:
        """Return whether code for it can be generated here."""
        return has(f"target.build.{self.name}")

    def has_runtime(self, has: HasFunction, /) -> bool:
        """Return whether this TVM can run its code, with or without a device."""
        return has(f"device_api.{self.name}")

    def answers(self) -> bool:
        """Return whether the first device answers. The runtime exists."""
        import tvm  # noqa: PLC0415 - planning asks this module too

        return bool(tvm.device(self.name, 0).exist)

    def probe(self, found: Capabilities, /) -> Capabilities:
        """Return the capabilities with the additions of this kind."""
        return found


class Diagnosed(Named):
    """The questions of the doctor."""

    def explain_absence(self, _capabilities: Capabilities, /) -> str | None:
        """Return why a device did not answer when its attributes were requested. None: nothing to add."""
        return None

    @abstractmethod
    def check(self, capabilities: Capabilities, /) -> Finding:
        """Return the doctor's line."""


class TargetKind(Configured, Planned, Tuned, Run, Probed, Diagnosed):
    """One of TVM's code generators, and the hardware that runs its code."""
