"""The archive that a cell ships: ``mod.so``, ``mod.params``, ``mod.json``."""
