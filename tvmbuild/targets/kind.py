"""The interface of every kind of target, one class for each asker. `targets/table.py` has the kinds.

What has a default need not be answered. What a cluster asks is in `cluster/kinds.py`.
Nothing here or in a kind's module imports TVM until it is called: the planner asks them too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.specs import Attributes, AttributeValue, TargetSpec

Mistake = tuple[str, str, str]
"""(key, what is wrong, what is expected)."""
Problem = tuple[str, str]
"""(what is wrong, what is expected)."""
HasFunction = Callable[[str], bool]
"""Says whether this TVM has a function of that name."""


class Named(ABC):
    """Asked by everybody."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What targets.yaml and TVM call it."""

    @property
    @abstractmethod
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU: its CPU's attributes are then the host's."""


class Configured(Named):
    """Asked by the configuration."""

    pinned: ClassVar[tuple[str, ...]] = ()
    """Attributes without which TVM guesses from the machine that builds, or fails on most models."""
    families: ClassVar[Mapping[str, Mapping[str, AttributeValue]]] = {}
    """Attributes by the `family:` that stands for them; empty: the kind has none."""

    def find_mistakes(self, _data: Mapping[str, Any], /) -> list[Mistake]:
        """Return what of the attributes cannot be; ``data`` is of the right types, its family known."""
        return []

    @abstractmethod
    def explain_precision(self, precision: str, attributes: Attributes, /) -> Problem | None:
        """Return what is wrong with a `precision` other than fp32; None: the hardware computes so."""


class Planned(Named):
    """Asked by the planner."""

    needs_records: ClassVar[bool] = True
    """Whether a Task without a record is badly off: those of GPUs are scheduled by rule, or by DLight."""
    rules: ClassVar[int] = 1
    """The version of `compiler/schedules` for it: one more than before wherever a rule makes another schedule."""

    def list_tools(self, _capabilities: Capabilities, /) -> dict[str, str]:
        """Return name → version of what compiles its code besides TVM, `absent` included: in the fingerprint."""
        return {}

    def explain_codegen(self, capabilities: Capabilities, /) -> str | None:
        """Return why no code can be generated here, with the remedy; None: it can."""
        if self.name in capabilities.codegens:
            return None
        return f"the installed TVM generates no {self.name} code; install a TVM built with it (see `tvmbuild doctor`)"

    def explain_compiler(self, _capabilities: Capabilities, /) -> str | None:
        """Return why generated code cannot be compiled here, with the remedy; None: it can, or TVM does all."""
        return None

    @abstractmethod
    def explain_here(self, cpu: Attributes, capabilities: Capabilities, /) -> str | None:
        """Return why this machine does not run its packages, with the remedy; None: it does."""

    def find_stand_in(self, _capabilities: Capabilities, /) -> str | None:
        """Return this machine's device where it runs the packages of every device of the kind.

        None: there is none, as where code is made for one architecture.
        """
        return None

    def describe(self, _attributes: Attributes, /) -> str:
        """Return the hardware in two words: `cuda sm_90`."""
        return self.name


class Tuned(Named):
    """Asked by the tuner."""

    always_builds: ClassVar[bool] = False
    """Whether TVM lowers each candidate, so that a batch of which none is built is this machine's fault."""
    frees_cores: ClassVar[bool] = False
    """Whether timing a candidate takes none of this machine's cores."""

    @abstractmethod
    def find_device_class(self) -> str:
        """Return the class of this machine's device: LLVM's name of the CPU, `znver4`, or the GPU's name, `h200`."""


class Run(Named):
    """Asked by whoever runs its packages on this machine."""

    def identify(self) -> dict[str, str] | None:
        """Identify the hardware that latency depends on besides the CPU; None where unknown: no time is shared."""
        return None

    def describe_here(self, _target: TargetSpec, /) -> str:
        """Return what of this machine its packages run on, for the doctor."""
        return f"this machine's {self.name} device"


class Probed(Named):
    """Asked by the probe, in a process of its own where TVM is imported."""

    def has_codegen(self, has: HasFunction, /) -> bool:
        """Return whether code for it can be generated here."""
        return has(f"target.build.{self.name}")

    def has_runtime(self, has: HasFunction, /) -> bool:
        """Return whether this TVM can run its code, device or none."""
        return has(f"device_api.{self.name}")

    def answers(self) -> bool:
        """Return whether a device answers, the first one; the runtime is there."""
        import tvm  # noqa: PLC0415 - planning asks this module too

        return bool(tvm.device(self.name, 0).exist)

    def probe(self, found: Capabilities, /) -> Capabilities:
        """Return the capabilities with what only this kind asks for."""
        return found


class Diagnosed(Named):
    """Asked by the doctor."""

    def explain_absence(self, _capabilities: Capabilities, /) -> str | None:
        """Return why a device did not answer when its attributes were asked for; None: there is nothing to add."""
        return None

    @abstractmethod
    def check(self, capabilities: Capabilities, /) -> Finding:
        """Return the doctor's line."""


class TargetKind(Configured, Planned, Tuned, Run, Probed, Diagnosed):
    """One of TVM's code generators, and the hardware that runs its code."""
