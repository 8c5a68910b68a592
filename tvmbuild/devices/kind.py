"""The interface of every kind of device, one class for each asker. `devices/table.py` has the kinds.

What has a default need not be answered. What a cluster asks is in `cluster/kinds.py`.
Nothing here or in a kind's module imports TVM until a device is opened or timed on: the planner asks them too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

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


class Named(ABC, Generic[Spec]):
    """Asked by everybody. A method's ``kind`` is a target's: llvm, cuda, vulkan."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What targets.yaml calls it; the specs' ``kind``."""


class Configured(Named[Spec]):
    """Asked by the configuration, and by `--device`."""

    schema: ClassVar[Mapping[str, Any] | None] = None
    """JSON Schema of what targets.yaml says below the name; None: the name is all."""
    form: ClassVar[str | None] = None
    """How `--device` writes it; None: it cannot be named there."""
    form_note: ClassVar[str] = ""
    """What to say behind the form, with a comma first; empty: nothing."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What the schema says of it."""

    @abstractmethod
    def parse(self, value: Any, /) -> Spec:
        """Return the spec of what targets.yaml says; ``value`` fits the schema."""

    def read(self, _text: str, /) -> Spec | None:
        """Return the spec of what `--device` says behind the name and a colon; None: it does not fit the form."""
        return None


class Planned(Named[Spec]):
    """Asked by the planner."""

    runs: ClassVar[bool] = True
    """Whether packages run on it."""
    no_times: ClassVar[str | None] = None
    """Why nothing is benchmarked on it, as the end of a sentence about a cell; None: it is."""

    def explain(self, _spec: Spec, _code: Code, _capabilities: Capabilities, /) -> str | None:
        """Return why the code cannot run on it from here, with the remedy.

        None: it can, or that is seen when the device is asked.
        """
        return None


class Tuned(Named[Spec]):
    """Asked by the tuner. Where the specs are not ``is_timed``, no candidate is timed, and all is answered here.

    Where they are, where and how has no default: `describe_timing`, `find_device_class`, `hold`, `make_timer`.
    """

    def describe_timing(self, _spec: Spec, /) -> str:
        """Return where candidates are timed, as the end of a step's description, with a blank first."""
        return f" (device {self.name}: records only)"

    def name_place(self, _spec: Spec, kind: str, /) -> str:
        """Return where candidates are timed, whose rates are one."""
        return f"{kind} {self.name}"

    def has_usual_rates(self, _kind: str, /) -> bool:
        """Return whether candidates are timed by this machine's cores, whose usual rates are known."""
        return False

    def frees_cores(self, _kind: str, /) -> bool:
        """Return whether timing a candidate takes none of this machine's cores."""
        return False

    def find_device_class(self, _spec: Spec, _kind: str, _measured_on: str | None, /) -> str:
        """Return the class that records say they were measured on; ``measured_on`` is what the target says of it."""
        raise self._refuse()

    def hold(self, _spec: Spec, _kind: str, /) -> AbstractContextManager[None]:
        """Hold what candidates are timed on."""
        raise self._refuse()

    def make_timer(self, _spec: Spec, _kind: str, _threads: int, _cores: Cores, /) -> CandidateTimer | None:
        """Return what times candidates; None: this machine's cores do."""
        raise self._refuse()

    def _refuse(self) -> ValueError:
        return ValueError(f"no candidate is timed on a device of kind {self.name}")


class Run(Named[Spec]):
    """Asked by whoever runs packages on it."""

    def identify(self, _spec: Spec, _kind: str, /) -> dict[str, str] | None:
        """Identify the hardware that latency depends on; None where it is not known: no time is shared."""
        return None

    @abstractmethod
    def describe_use(self, spec: Spec, target: TargetSpec, /) -> str:
        """Return what the target's packages run on, for the doctor."""

    @abstractmethod
    def open(self, spec: Spec, /) -> Device:
        """Return the device; TvmbuildError where packages cannot run on it."""


class DeviceKind(Configured[Spec], Planned[Spec], Tuned[Spec], Run[Spec]):
    """A way to run packages."""
