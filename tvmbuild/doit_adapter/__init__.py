"""The adapter to doit, besides the command line: steps as tasks, their state, and the output of a run."""
