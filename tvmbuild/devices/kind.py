"""What every kind of device answers. `devices/table.py` has the kinds.

Nothing here or in a kind's module imports TVM until a device is opened or timed on: the planner asks them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.specs import Attributes, TargetSpec

if TYPE_CHECKING:
    from tvmbuild.devices.candidate_timer import CandidateTimer  # imports TVM
    from tvmbuild.devices.device import Device  # imports NumPy

Spec = TypeVar("Spec", bound=DeviceSpec)


@dataclass(frozen=True)
class Code:
    """What is to run on a device: code of a target's kind, called by a CPU with those attributes."""

    kind: str
    cpu: Attributes


class Cores(Protocol):
    """How a search shares this machine's cores."""

    @property
    def building(self) -> Sequence[int]:
        """Those that build candidates."""

    @property
    def timing(self) -> Sequence[int]:
        """Those that are kept for timing them."""


class DeviceKind(Protocol[Spec]):
    """A way to run packages. A method's ``kind`` is a target's: llvm, cuda, vulkan."""

    @property
    def name(self) -> str:
        """What targets.yaml calls it; the specs' ``kind``."""

    # ------------------------------------------------------------------- targets.yaml and --device

    @property
    def about(self) -> str:
        """What the schema says of it."""

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of what targets.yaml says below the name; None: the name is all."""

    @property
    def form(self) -> str | None:
        """How `--device` writes it; None: it cannot be named there."""

    @property
    def form_note(self) -> str:
        """What to say behind the form, with a comma first; empty: nothing."""

    def parse(self, value: Any, /) -> Spec:
        """Return the spec of what targets.yaml says; ``value`` fits the schema."""

    def read(self, text: str, /) -> Spec | None:
        """Return the spec of what `--device` says behind the name and a colon; None: it does not fit the form."""

    # ------------------------------------------------------------------- planning

    @property
    def runs(self) -> bool:
        """Whether packages run on it."""

    @property
    def no_times(self) -> str | None:
        """Why nothing is benchmarked on it, as the end of a sentence about a cell; None: it is."""

    def explain(self, spec: Spec, code: Code, capabilities: Capabilities, /) -> str | None:
        """Return why the code cannot run on it from here, with the remedy; None: it can."""

    def identify(self, spec: Spec, kind: str, /) -> dict[str, str] | None:
        """Return what latency on it depends on; None where it cannot be told from others."""

    def describe_use(self, spec: Spec, target: TargetSpec, /) -> str:
        """Return what the target's packages run on, for the doctor."""

    # ------------------------------------------------------------------- tuning

    def describe_timing(self, spec: Spec, /) -> str:
        """Return where candidates are timed, as the end of a step's description, with a blank first."""

    def name_place(self, spec: Spec, kind: str, /) -> str:
        """Return where candidates are timed, whose rates are one."""

    def has_usual_rates(self, kind: str, /) -> bool:
        """Say whether candidates are timed by this machine's cores, whose usual rates are known."""

    def frees_cores(self, kind: str, /) -> bool:
        """Say whether timing a candidate takes none of this machine's cores."""

    def find_device_class(self, spec: Spec, kind: str, measured_on: str | None, /) -> str:
        """Return the class that records say they were measured on; ``measured_on`` is what the target says of it."""

    def hold(self, spec: Spec, kind: str, /) -> AbstractContextManager[None]:
        """Hold what candidates are timed on."""

    def make_timer(self, spec: Spec, kind: str, threads: int, cores: Cores, /) -> CandidateTimer | None:
        """Return what times candidates; None: this machine's cores do."""

    # ------------------------------------------------------------------- running

    def open(self, spec: Spec, /) -> Device:
        """Return the device; TvmbuildError where packages cannot run on it."""


class Untimed:
    """A kind on which no candidate is timed: its specs are not ``is_timed``."""

    name: str

    def identify(self, _spec: DeviceSpec, _kind: str) -> dict[str, str] | None:
        """Return None: it is not this machine."""
        return None

    def describe_timing(self, _spec: DeviceSpec) -> str:
        """Return that nothing is."""
        return f" (device {self.name}: records only)"

    def name_place(self, _spec: DeviceSpec, kind: str) -> str:
        """Return the kinds' names."""
        return f"{kind} {self.name}"

    def has_usual_rates(self, _kind: str) -> bool:
        """Return False."""
        return False

    def frees_cores(self, _kind: str) -> bool:
        """Return False."""
        return False

    def find_device_class(self, _spec: DeviceSpec, _kind: str, _measured_on: str | None) -> str:
        """Raise: nobody has a record of it."""
        raise self._refuse()

    def hold(self, _spec: DeviceSpec, _kind: str) -> AbstractContextManager[None]:
        """Raise."""
        raise self._refuse()

    def make_timer(self, _spec: DeviceSpec, _kind: str, _threads: int, _cores: Cores) -> CandidateTimer | None:
        """Raise."""
        raise self._refuse()

    def _refuse(self) -> ValueError:
        return ValueError(f"no candidate is timed on a device of kind {self.name}")
