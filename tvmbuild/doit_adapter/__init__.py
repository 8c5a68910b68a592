"""All that knows doit, besides the command line: steps as tasks, their state, what a run prints."""
