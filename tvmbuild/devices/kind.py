"""The interface of every kind of device, one class for each caller. `devices/table.py` lists the kinds.

A method with a default need not be implemented. The cluster's questions are in `cluster/kinds.py`.
Neither this module nor a kind's module imports TVM until a device is opened or used for timing: the planner imports
them too.
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
    """Code that is to run on a device: the target's kind, and the attributes of the CPU that calls it."""

    kind: str
    cpu: Attributes


class Cores(Protocol):
    """The split of this machine's cores in a search."""

    @property
    def building(self) -> Sequence[int]:
        """The cores that build candidates."""

    @property
    def timing(self) -> Sequence[int]:
        """The cores that are kept for timing candidates."""


class Named(ABC, Generic[Spec]):
    """The questions of every caller. A method's ``kind`` is a target's: llvm, cuda, vulkan."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in targets.yaml, equal to the specs' ``kind``."""


class Configured(Named[Spec]):
    """The questions of the configuration and of `--device`."""

    schema: ClassVar[Mapping[str, Any] | None] = None
    """JSON Schema of the value below the name in targets.yaml. None: the kind has only a name."""
    form: ClassVar[str | None] = None
    """The syntax of the kind in `--device`. None: `--device` does not accept it."""
    form_note: ClassVar[str] = ""
    """The text behind the form in messages, with a comma first. Empty: no text."""

    @property
    @abstractmethod
    def about(self) -> str:
        """The description in the schema."""

    @abstractmethod
    def parse(self, value: Any, /) -> Spec:
        """Return the device that a value of targets.yaml describes. ``value`` fits the schema."""

    def read(self, _text: str, /) -> Spec | None:
        """Return the device of `--device NAME:TEXT`, from the text. None: the text does not fit the form."""
        return None


class Planned(Named[Spec]):
    """The questions of the planner."""

    runs: ClassVar[bool] = True
    """Whether packages run on it."""
    no_times: ClassVar[str | None] = None
    """The reason why nothing is benchmarked on it, as the end of a sentence about a cell. None: it is benchmarked."""

    def explain(self, _spec: Spec, _code: Code, _capabilities: Capabilities, /) -> str | None:
        """Return why the code cannot run on it from here, with the remedy.

        None: it can, or only the device itself can tell.
        """
        return None


class Tuned(Named[Spec]):
    """The questions of the tuner. If the specs are not ``is_timed``, no candidate is timed and the defaults suffice.

    Otherwise a kind must implement `describe_timing`, `find_device_class`, `hold` and `make_timer`.
    """

    def describe_timing(self, _spec: Spec, /) -> str:
        """Return where candidates are timed, as the end of a step's description, with a blank first."""
        return f" (device {self.name}: records only)"

    def name_place(self, _spec: Spec, kind: str, /) -> str:
        """Return the name of the place where candidates are timed. Places of the same name share their rates."""
        return f"{kind} {self.name}"

    def has_usual_rates(self, _kind: str, /) -> bool:
        """Return whether this machine's cores time the candidates, so that their usual rates are known."""
        return False

    def frees_cores(self, _kind: str, /) -> bool:
        """Return whether timing a candidate takes none of this machine's cores."""
        return False

    def find_device_class(self, _spec: Spec, _kind: str, _measured_on: str | None, /) -> str:
        """Return the device class that records name. ``measured_on`` is the class that the target states."""
        raise self._refuse()

    def hold(self, _spec: Spec, _kind: str, /) -> AbstractContextManager[None]:
        """Hold the device on which candidates are timed."""
        raise self._refuse()

    def make_timer(self, _spec: Spec, _kind: str, _threads: int, _cores: Cores, /) -> CandidateTimer | None:
        """Return the timer of candidates. None: this machine's cores time them."""
        raise self._refuse()

    def _refuse(self) -> ValueError:
        return ValueError(f"no candidate is timed on a device of kind {self.name}")


class Run(Named[Spec]):
    """The questions of callers that run packages."""

    def identify(self, _spec: Spec, _kind: str, /) -> dict[str, str] | None:
        """Identify the hardware that latency depends on. None: it is not known, and no time is shared."""
        return None

    @abstractmethod
    def describe_use(self, spec: Spec, target: TargetSpec, /) -> str:
        """Return the hardware on which the target's packages run, for the doctor."""

    @abstractmethod
    def open(self, spec: Spec, /) -> Device:
        """Return the device. Raises TvmbuildError if packages cannot run on it."""


class DeviceKind(Configured[Spec], Planned[Spec], Tuned[Spec], Run[Spec]):
    """A way to run packages."""
