"""One step, run in a process of its own; why a step has to run; what is kept of it. Nothing here knows doit."""
