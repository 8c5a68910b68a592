"""Marks that tell whether a field of a spec or of a step's options is in fingerprints."""

from __future__ import annotations

OMIT_WHEN_DEFAULT = {"later": True}
"""Marks a field that older packages lack. Its default is in no fingerprint, so that no package is built again."""
NOT_FINGERPRINTED = {"told": True}
"""Marks a field outside the fingerprint: another part of the fingerprint covers it, or no output depends on it."""
