"""An instance of TVM's virtual machine with the memory that it keeps for its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Machine:
    """An instance of TVM's virtual machine, which serves one call at a time."""

    machine: Any
    """TVM's object, which has the package's functions by their names."""
    main: Callable[..., Any]
    """The function that runs the model."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Name of an input → its memory on the device, for reuse by the next call."""
    kept_by_entry: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same for each function beside ``main``, whose arguments may have the names of inputs."""
