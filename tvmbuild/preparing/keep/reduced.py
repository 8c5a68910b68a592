"""A network in a reduced precision whose operators can in part stay in floats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from tvmbuild.preparing.keep.groups import Group, find_dequantised, list_groups
from tvmbuild.preparing.keep.restore import restore
from tvmbuild.preparing.reference import shake


@dataclass(frozen=True)
class Words:
    """The words of messages about a reduced network."""

    reduced: str
    """The state of most operators: quantised, in fp16."""
    kept: str
    """The state of the operators that are kept: in floats, in float32."""


class Reduced(Protocol):
    """A network in a reduced precision."""

    @property
    def words(self) -> Words:
        """The words of messages about this network."""

    @property
    def original(self) -> Any:
        """The float model, an ONNX ModelProto whose nodes have unique names."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """The operators that can stay in floats, in groups that stay together."""

    def build(self, nodes: frozenset[str]) -> Any:
        """Return the ONNX model with the named operators in floats."""

    def list_roundings(self, model: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the model with other ways of rounding, and whether ONNX Runtime optimises it.

        A set of operators must be enough with each of them.
        """


@dataclass(frozen=True)
class QuantisedModel:
    """A QDQ model of a float model."""

    quantised: Any
    original: Any
    words: Words = Words("quantised", "in floats")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of operators with quantised inputs."""
        return list_groups(self.original, find_dequantised(self.quantised))

    def build(self, nodes: frozenset[str]) -> Any:
        """Return the QDQ model with the named operators in floats."""
        return restore(self.quantised, self.original, nodes)

    def list_roundings(self, model: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield two ways: sums half-way between two steps are rounded otherwise in each."""
        yield shake(model), False
        yield model, True
