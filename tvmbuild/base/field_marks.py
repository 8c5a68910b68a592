"""What a field of a spec or of a step's options is to fingerprints."""

from __future__ import annotations

OMIT_WHEN_DEFAULT = {"later": True}
"""Marks a field that packages were built without: its default is in no fingerprint, so that none is built again."""
NOT_FINGERPRINTED = {"told": True}
"""Marks a field that something else in the fingerprint tells, or on which no output depends: it is not in it itself."""
