"""Imports that take less time: modules that are imported when they are first used, and no garbage collector."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """A stand-in for a module, which it imports at the first access to one of its attributes."""

    def __getattr__(self, name: str) -> Any:
        """Return the module's attribute. Any number of threads may be the first."""
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def import_lazily(name: str) -> ModuleType:
    """Return a stand-in for the module ``name``. The attributes that it has returned once stay as they are.

    For type checkers, import the module under TYPE_CHECKING, too.
    """
    return LazyModule(name)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause Python's cyclic garbage collector, which takes a tenth of the time of an import and finds nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
