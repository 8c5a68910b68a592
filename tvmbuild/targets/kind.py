"""What every kind of target answers. `targets/table.py` has the kinds.

Nothing here or in a kind's module imports TVM until it is called: the planner asks them too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.specs import Attributes, AttributeValue, TargetSpec

Mistake = tuple[str, str, str]
"""(key, what is wrong, what is expected)."""
Problem = tuple[str, str]
"""(what is wrong, what is expected)."""
HasFunction = Callable[[str], bool]
"""Says whether this TVM has a function of that name."""


class TargetKind(Protocol):
    """One of TVM's code generators, and the hardware that runs its code."""

    @property
    def name(self) -> str:
        """What targets.yaml and TVM call it."""

    @property
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU: its CPU's attributes are then the host's."""

    # ------------------------------------------------------------------- targets.yaml

    @property
    def pinned(self) -> tuple[str, ...]:
        """Attributes without which TVM guesses from the machine that builds, or fails on most models."""

    @property
    def families(self) -> Mapping[str, Mapping[str, AttributeValue]]:
        """Attributes by the `family:` that stands for them; empty: the kind has none."""

    def find_mistakes(self, data: Mapping[str, Any], /) -> list[Mistake]:
        """Return what of the attributes cannot be; ``data`` is of the right types, its family known."""

    def explain_precision(self, precision: str, attributes: Attributes, /) -> Problem | None:
        """Return what is wrong with a `precision` other than fp32; None: the hardware computes so."""

    # ------------------------------------------------------------------- building

    @property
    def needs_records(self) -> bool:
        """Whether a Task without a record is badly off: those of GPUs are scheduled by rule, or by DLight."""

    @property
    def always_builds(self) -> bool:
        """Whether TVM lowers each candidate, so that a batch of which none is built is this machine's fault."""

    @property
    def rules(self) -> int:
        """The version of `compiler/schedules` for it: one more than before wherever a rule makes another schedule."""

    def list_tools(self, capabilities: Capabilities, /) -> dict[str, str]:
        """Return name → version of what compiles its code besides TVM, `absent` included: in the fingerprint."""

    def explain_codegen(self, capabilities: Capabilities, /) -> str | None:
        """Return why no code can be generated here, with the remedy; None: it can."""

    def explain_compiler(self, capabilities: Capabilities, /) -> str | None:
        """Return why generated code cannot be compiled here, with the remedy; None: it can."""

    # ------------------------------------------------------------------- running on this machine

    @property
    def frees_cores(self) -> bool:
        """Whether timing a candidate takes none of this machine's cores."""

    def explain_here(self, cpu: Attributes, capabilities: Capabilities, /) -> str | None:
        """Return why this machine does not run its packages, with the remedy; None: it does."""

    def find_stand_in(self, capabilities: Capabilities, /) -> str | None:
        """Return this machine's device where it runs the packages of every device of the kind; None: there is none."""

    def identify(self) -> dict[str, str] | None:
        """Return what latency here depends on besides the CPU; None where that cannot be told."""

    def find_device_class(self) -> str:
        """Return the class of this machine's device: LLVM's name of the CPU, `znver4`, or the GPU's name, `h200`."""

    def describe_here(self, target: TargetSpec, /) -> str:
        """Return what of this machine its packages run on, for the doctor."""

    # ------------------------------------------------------------------- asking TVM and the machine

    def has_codegen(self, has: HasFunction, /) -> bool:
        """Say whether code for it can be generated here. Called where TVM is imported."""

    def has_runtime(self, has: HasFunction, /) -> bool:
        """Say whether this TVM can run its code, device or none. Called where TVM is imported."""

    def answers(self) -> bool:
        """Say whether a device answers; the runtime is there. Called where TVM is imported."""

    def probe(self, found: Capabilities, /) -> Capabilities:
        """Return the capabilities with what only this kind asks for. Called where TVM is imported."""

    # ------------------------------------------------------------------- saying

    def describe(self, attributes: Attributes, /) -> str:
        """Return the hardware in two words: `cuda sm_90`."""

    def explain_absence(self, capabilities: Capabilities, /) -> str | None:
        """Return why a device did not answer when its attributes were asked for; None: there is nothing to add."""

    def check(self, capabilities: Capabilities, /) -> Finding:
        """Return the doctor's line."""
