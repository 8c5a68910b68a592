"""The engine: it runs one step in its own process, decides why a step must run, and keeps its state. No doit here."""
