"""The engine: it runs each step in its own process, decides why a step must run, and keeps its state, without doit."""
