"""The adapter to doit: steps as doit's tasks, their state, doit's command line, and the output of a run."""
