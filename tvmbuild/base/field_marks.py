"""Marks of fields, in specs and in a step's options, that fingerprints leave out."""

from __future__ import annotations

OMIT_WHEN_DEFAULT = {"later": True}
"""The mark of a field that was added later. Its default is in no fingerprint, so that no package is built again."""
NOT_FINGERPRINTED = {"told": True}
"""The mark of a field that is in no fingerprint, because another part covers it or no output depends on it."""
