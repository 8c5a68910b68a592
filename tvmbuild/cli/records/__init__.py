"""The command `tvmbuild records …`, one file for each action."""
