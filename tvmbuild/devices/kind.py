"""The interface of a kind of device, with one abstract class for each caller. `devices/table.py` lists the kinds.

A kind need not implement a method that has a default. The resources that a kind takes on a cluster are in
`cluster/kinds.py`. Neither this module nor a kind's module imports TVM before a device is opened or used for timing,
because the planner imports these modules too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.specs import TargetSpec

if TYPE_CHECKING:
    from tvmbuild.devices.candidate_timer import CandidateTimer  # imports TVM
    from tvmbuild.devices.device import Device  # imports NumPy

Spec = TypeVar("Spec", bound=DeviceSpec)


@dataclass(frozen=True)
class Code:
    """The requirements of code that will run on a device."""

    kind: str
    """The kind of the code's target: llvm, cuda, vulkan."""
    cpu: Attributes
    """The target's attributes of the CPU that runs the code, or that launches its kernels on a GPU."""


class Cores(Protocol):
    """The division of this machine's cores during a search."""

    @property
    def building(self) -> Sequence[int]:
        """The cores that build candidates."""

    @property
    def timing(self) -> Sequence[int]:
        """The cores that are kept for timing candidates."""


class Named(ABC, Generic[Spec]):
    """The methods for all callers. In all classes here ``kind`` is a target's kind: llvm, cuda or vulkan."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The kind's name in targets.yaml, which equals the ``kind`` of its DeviceSpec class."""


class Configured(Named[Spec]):
    """The methods for the configuration and the option `--device`."""

    schema: ClassVar[Mapping[str, Any] | None] = None
    """The JSON Schema of the value below the kind's name in targets.yaml. None if the name has no value."""
    form: ClassVar[str | None] = None
    """The syntax of a device of this kind in `--device`. None if `--device` does not accept the kind."""
    form_note: ClassVar[str] = ""
    """The text that follows ``form`` in messages. Unless it is empty, it begins with a comma."""

    @property
    @abstractmethod
    def about(self) -> str:
        """The description of the kind in the JSON Schema of targets.yaml."""

    @abstractmethod
    def parse(self, value: Any, /) -> Spec:
        """Return the device that a value in targets.yaml describes. ``value`` must conform to ``schema``."""

    def read(self, _text: str, /) -> Spec | None:
        """Return the device that the text in `--device NAME:TEXT` describes, or None if the text is not of ``form``."""
        return None


class Planned(Named[Spec]):
    """The methods for the planner."""

    runs: ClassVar[bool] = True
    """True if devices of this kind run packages."""
    no_times: ClassVar[str | None] = None
    """Why packages are not benchmarked on these devices, as the end of a sentence about a cell, or None."""

    def explain(self, _spec: Spec, _code: Code, _capabilities: Capabilities, /) -> str | None:
        """Return why the code cannot run on the device when this machine uses it, with the remedy.

        Returns None if it can run, or if only the device itself can tell.
        """
        return None


class Tuned(Named[Spec]):
    """The methods for the tuner.

    A kind whose DeviceSpec class has ``is_timed`` must implement `describe_timing`, `find_device_class`, `hold` and
    `make_timer`. The tuner times no candidates on other kinds, for which the defaults suffice.
    """

    def describe_timing(self, _spec: Spec, /) -> str:
        """Return where candidates are timed, as the end of a step's description. The text begins with a blank."""
        return f" (device {self.name}: records only)"

    def name_place(self, _spec: Spec, kind: str, /) -> str:
        """Return the name of the place where candidates are timed. Searches at the same place share measured rates."""
        return f"{kind} {self.name}"

    def has_usual_rates(self, _kind: str, /) -> bool:
        """Return whether usual tuning rates apply: candidates are timed on this machine's cores."""
        return False

    def frees_cores(self, _kind: str, /) -> bool:
        """Return whether timing a candidate needs none of this machine's cores, so that all of them can build."""
        return False

    def find_device_class(self, _spec: Spec, _kind: str, _measured_on: str | None, /) -> str:
        """Return the device class under which records are stored: the name of the CPU or GPU.

        ``measured_on`` is the class that the target states in targets.yaml, or None.
        """
        raise self._refuse()

    def hold(self, _spec: Spec, _kind: str, /) -> AbstractContextManager[None]:
        """Return a context that holds the lock of the device on which candidates are timed."""
        raise self._refuse()

    def make_timer(self, _spec: Spec, _kind: str, _threads: int, _cores: Cores, /) -> CandidateTimer | None:
        """Return the timer of candidates, or None if this machine's cores time them."""
        raise self._refuse()

    def _refuse(self) -> ValueError:
        return ValueError(f"no candidate is timed on a device of kind {self.name}")


class Run(Named[Spec]):
    """The methods for callers that run packages."""

    def identify(self, _spec: Spec, _kind: str, /) -> dict[str, str] | None:
        """Return the properties of the hardware on which latency depends, as name → value.

        Returns None if they are unknown. Then benchmark results are not shared through the cache.
        """
        return None

    @abstractmethod
    def describe_use(self, spec: Spec, target: TargetSpec, /) -> str:
        """Return a phrase for the hardware on which the target's packages run, for `tvmbuild doctor`."""

    @abstractmethod
    def open(self, spec: Spec, /) -> Device:
        """Return the device, ready to run packages. Raises TvmbuildError if packages cannot run on it."""


class DeviceKind(Configured[Spec], Planned[Spec], Tuned[Spec], Run[Spec]):
    """A kind of device: the complete interface that each kind implements."""
