"""The command `tvmbuild device …`, one file for each action."""
