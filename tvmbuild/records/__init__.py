"""Measured schedules that live in git: one JSON file a (target, Task)."""
