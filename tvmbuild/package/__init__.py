"""Packages, the archives that tvmbuild ships (``mod.so``, ``mod.params``, ``mod.json``), and their runtime."""
